"""Checks a table's files at adoption for traps that no setting shows and that would lose rows in silence."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from operator import itemgetter
from typing import Any, TypeVar

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from hardpack.clock import LAST
from hardpack.errors import BadInput, Unavailable
from hardpack.files.content_file import ContentFile, of_manifest
from hardpack.files.data_files import DataFiles
from hardpack.rules.model import DataFile, Partition
from hardpack.rules.settings import Settings
from hardpack.table.columns import NO_LOG, POLICY, LogColumns, table_name
from hardpack.table.footers import SILENT, Footers, name_mapping
from hardpack.table.log_name import SURE_LENGTH
from hardpack.table.manifests import ManifestReader
from hardpack.table.schema_columns import LogColumn, find_column
from hardpack.table.table_files import data_entries, manifests_of, table_files

T = TypeVar("T")
log = logging.getLogger(__name__)
MOST_FOOTERS = 1000
"""Most files, the oldest and newest, whose footers are read where bounds do not tell the topic: a second's work."""
SAMPLED_FILES = 6
"""Most files without bounds of the key, the oldest and newest, whose first rows are read to find empty keys."""
KAFKAS_TOPIC = ("kafka_topic", "_kafka_topic", "kafkatopic")
"""Names, in small letters, of a column with Kafka's topic beside one with its partition that names Kafka too."""
FIRST_SECOND = 1_000_000_000
"""September 2001 in seconds; as milliseconds it is of January 1970, as tests' own numbers are."""
MOST_SECONDS = 100_000_000_000
"""Beyond all seconds since the epoch that are met; as milliseconds it is of the year 1973."""


def check_rows(table: Table, settings: Settings) -> None:
    """Checks that the rows of a table mean what its settings say.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.

    Raises:
        BadInput: a file is no Parquet file, the timestamp seems to be in another unit, keys are empty and `key.absent`
            does not say what that means, or a partition field beside the log's separates rows with offset sequences of
            their own.
    """
    _check_files(table, settings)
    _check_sequences(table, settings)
    if settings.key_absent is None and _has_empty_keys(table, settings):
        name = table_name(table)
        raise BadInput(
            f"{name}: column {settings.column_key!r} holds empty keys, which some sinks write for rows without a key "
            f"and which would all be one key; say what they are with `hardpack adopt {name} --set key.absent=empty` "
            "(no key) or key.absent=null (a key like any other)."
        )


def _topic_beside(table: Table, settings: Settings) -> str:
    """Returns the text column that names the topic of each row as its name tells; empty when there is none.

    It is named like the log's column, with `topic` for `partition`, else as `KAFKAS_TOPIC` says. Capitals do not count.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
    """
    log = LogColumns.of(table.schema(), settings).log
    before, named, behind = log.columns[0].name.casefold().rpartition("partition")
    if not named or len(log.columns) > 1:
        return ""
    others = KAFKAS_TOPIC if "kafka" in before else ()
    return _text_column(table, f"{before}topic{behind}", *others)


def _text_column(table: Table, *names: str) -> str:
    """Returns the first text column that has one of these names, given in small letters; empty when there is none."""
    schema = table.schema()
    by_name = {name.casefold(): name for number in schema.field_ids if (name := schema.find_column_name(number))}
    columns = (find_column(schema, by_name[name]) for name in names if name in by_name)
    return next((c.name for c in columns if c and isinstance(c.field_type, StringType)), "")


def topics_in(table: Table, path: str) -> list[str]:
    """Returns the names of Kafka topics that a table's files are known to hold, sorted.

    Bounds tell the least and the greatest name of many rows, so that names between may be missing.

    Args:
        table: as pyiceberg loaded it.
        path: of the column with the topic's name.

    Raises:
        Unavailable: a footer that is asked for the topic cannot be read.
    """
    column = find_column(table.schema(), path)
    if column is None:
        return []
    names, untold = set[bytes](), list[tuple[int, str]]()
    for entry in data_entries(table):
        file = entry.data_file
        low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
        if low is None or high is None or len(low) >= SURE_LENGTH:
            # some writers cut long bounds, by which names that begin alike cannot be told apart
            untold.append((entry.sequence_number or 0, file.file_path))
        else:
            names |= {low, high}
    asked = _oldest_and_newest(untold, MOST_FOOTERS)
    footers = Footers(table.io, table.location(), name_mapping(table), (column,)).look(asked)
    if unread := [file for file, facts in footers.items() if facts is None]:
        raise Unavailable(
            f"{table_name(table)}: the footers of {len(unread)} data files cannot be read, {unread[0]} among them, so "
            f"that nobody knows which topics {path!r} names there; try again, or mend these files."
        )
    names |= {
        end for bounds in footers.values() for end in (bounds or {}).get(column.field_id, SILENT)[1:] if end is not None
    }
    return [name.decode(errors="replace") for name in sorted(names)]


def check_topics(table: Table, settings: Settings, path: str, by_name: bool) -> None:
    """Checks that a log is of one Kafka topic, as far as bounds tell, since each topic's offsets begin anew.

    A column that is called `topic` and that nothing else ties to the log may be one of the value's own: where it has
    several values, a warning is logged.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
        path: of the column with the topic's name, empty where the writer is not known to have one.
        by_name: whether such a column is also found by its name.

    Raises:
        BadInput: the table holds several topics, and the log is named without the topic's column.
        Unavailable: a footer that is asked for the topic cannot be read.
    """
    path = path or (_topic_beside(table, settings) if by_name else "")
    if not path:
        if by_name:
            _warn_of_topics(table, settings)
        return
    if path in [column.name for column in LogColumns.of(table.schema(), settings).log.columns]:
        return
    if len(topics := topics_in(table, path)) > 1:
        name = table_name(table)
        raise BadInput(
            f"{name}: column {path!r} names several topics, {topics[0]!r} and {topics[1]!r} among them, whose offsets "
            f"each begin anew, expected logs that are named with their topic; `hardpack adopt {name} --set "
            f"column.partition={path},{settings.column_partition}` names them so. Rename the column if it is none of "
            "Kafka's."
        )


def _warn_of_topics(table: Table, settings: Settings) -> None:
    path, several = _text_column(table, "topic", *KAFKAS_TOPIC), False
    if not path or path in [column.name for column in LogColumns.of(table.schema(), settings).log.columns]:
        return
    # what only leads to a warning stops no adoption
    with suppress(Unavailable):
        several = len(topics_in(table, path)) > 1
    if several:
        log.warning(
            "%s: column %r has several values; if these are Kafka's topics, whose offsets each begin anew, name logs "
            "with them by `hardpack adopt %s --set column.partition=%s,%s`, as else keys of one topic supersede "
            "another's", table_name(table), path, table_name(table), path, settings.column_partition,
        )  # fmt: skip


def _has_empty_keys(table: Table, settings: Settings) -> bool:
    """Returns whether a key is empty, by lower bounds, or by the first rows of sampled files that have none.

    An empty key is the least of all values, so that a file's lower bound tells it.
    """
    key = LogColumns.of(table.schema(), settings).plain_key
    if key is None:
        return False
    untold: list[tuple[int, IceFile]] = []
    for entry in data_entries(table):
        file = entry.data_file
        bound = (file.lower_bounds or {}).get(key.field_id)
        if bound == b"":
            return True
        if bound is None and (file.null_value_counts or {}).get(key.field_id) != file.record_count:
            untold.append((entry.sequence_number or 0, file))
    files, schema = DataFiles.of(table), table.schema()
    sample = _oldest_and_newest(untold, SAMPLED_FILES)
    return any(_empty_in(files, of_manifest(file, files.specs[file.spec_id], schema), key) for file in sample)


def _oldest_and_newest(files: Iterable[tuple[int, T]], most: int) -> list[T]:
    """Returns files that are given with their sequence numbers: all, or the oldest and newest ones of them.

    Args:
        files: with their sequence numbers.
        most: how many files to return at most, an even number.
    """
    ordered = [file for _, file in sorted(files, key=itemgetter(0))]
    return ordered if len(ordered) <= most else ordered[: most // 2] + ordered[-(most // 2) :]


def _empty_in(files: DataFiles, file: ContentFile, key: LogColumn) -> bool:
    import pyarrow.compute as pc

    first = next(files.read(file, [key]), None)
    return first is not None and bool(pc.any(pc.equal(pc.binary_length(first[key.name]), 0)).as_py())


def _check_files(table: Table, settings: Settings) -> None:
    """Checks that all files are Parquet, and a timestamp that is a whole number in milliseconds, as bounds tell.

    Of a table that is adopted already the unit is not asked, as it may have no other column.

    Raises:
        BadInput: a file is none, or the timestamp seems to be in another unit.
    """
    column = LogColumns.of(table.schema(), settings).timestamp
    is_number = isinstance(column.field_type, LongType) and POLICY not in table.properties
    least, greatest = math.inf, 0
    for file in table_files(table):
        if file.file_format != FileFormat.PARQUET:
            raise BadInput(
                f"{table_name(table)}: data file {file.file_path} is {file.file_format.value.lower()}, expected "
                "parquet; set write.format.default to parquet, and have Iceberg write such files anew "
                "(rewrite_data_files)."
            )
        if is_number:
            low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
            least = min(least, int(from_bytes(LongType(), low)) if low else math.inf)
            greatest = max(greatest, int(from_bytes(LongType(), high)) if high else 0)
    if LAST < least < math.inf or FIRST_SECOND < greatest < MOST_SECONDS:
        value, unit = (greatest, "seconds") if greatest < MOST_SECONDS else (least, "microseconds or less")
        raise BadInput(
            f"{table_name(table)}: column {column.name!r}, mapped to the timestamp, has values such as {value}, as if "
            f"it were in {unit}, expected milliseconds since the epoch; have the writer write these, or map a column "
            "of type timestamp or timestamptz."
        )


def _check_sequences(table: Table, settings: Settings) -> None:
    """Checks that no partition field beside the log's separates rows with offset sequences of their own.

    The name of a Kafka topic is such a field. Raises BadInput where one does.
    """
    log = LogColumns.of(table.schema(), settings).log.field_ids
    fields = (f for f in table.spec().fields if isinstance(f.transform, IdentityTransform))
    others = [f.source_id for f in fields if f.source_id not in log]
    reader = ManifestReader(table, settings)
    manifests = [m for m in manifests_of(table) if m.content == ManifestContent.DATA]
    for source in others:
        files_of: dict[Partition, dict[Any, list[DataFile]]] = defaultdict(lambda: defaultdict(list))
        for own, value, file in reader.beside(manifests, source):
            # rows that name no log, and files whose offsets are not known, prove nothing
            if own != NO_LOG and not file.trouble:
                files_of[own][value].append(file)
        if mixed := [own for own, parts in files_of.items() if len(parts) > 1 and _collide(parts.values())]:
            column = table.schema().find_column_name(source)
            raise BadInput(
                f"{table_name(table)}: partition field {column!r} separates rows of log {mixed[0]} that have the same "
                f"offsets, as topics do, so that {settings.column_partition!r} alone names no log; name it with both, "
                f"with --set column.partition={column},{settings.column_partition}."
            )


def _collide(parts: Iterable[list[DataFile]]) -> bool:
    """Returns whether an offset must stand in two parts: their files overlap and have more rows than offsets there."""
    spans = sorted((f.min_offset, f.max_offset, f.rows, at) for at, files in enumerate(parts) for f in files)
    low, high, rows, members = 0, -1, 0, set[int]()
    for start, end, count, part in [*spans, (2**63, 2**63, 0, -1)]:
        if start > high:
            if len(members) > 1 and rows > high - low + 1:
                return True
            low, high, rows, members = start, end, 0, set()
        high, rows = max(high, end), rows + count
        members.add(part)
    return False
