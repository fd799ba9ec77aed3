"""Checks a table's files at adoption for traps that no setting shows and that would lose rows in silence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from hardpack.errors import BadInput
from hardpack.files.content_file import ContentFile, of_manifest
from hardpack.files.data_files import DataFiles
from hardpack.rules.model import DataFile, Partition
from hardpack.rules.settings import Settings
from hardpack.table.columns import NO_LOG, LogColumns, table_name
from hardpack.table.footers import SILENT, Footers
from hardpack.table.log_name import SURE_LENGTH
from hardpack.table.manifests import ManifestReader, manifests_of, table_files
from hardpack.table.schema_columns import LogColumn, find_column

MOST_FOOTERS = 1000
"""Most files, the newest, whose footers are read for the topic where bounds do not tell it: a second's work."""
SAMPLED_FILES = 5
"""Most files without bounds of the key whose first rows are read to find empty keys."""


def check_rows(table: Table, settings: Settings) -> None:
    """Checks that the rows of a table mean what its settings say.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.

    Raises:
        BadInput: a file is no Parquet file, keys are empty and `key.absent` does not say what that means, or a
            partition field beside the log's separates rows with offset sequences of their own.
    """
    if other := next((file for file in table_files(table) if file.file_format != FileFormat.PARQUET), None):
        raise BadInput(
            f"{table_name(table)}: data file {other.file_path} is {other.file_format.value.lower()}, expected parquet; "
            "set write.format.default to parquet, and have Iceberg write such files anew (rewrite_data_files)."
        )
    _check_sequences(table, settings)
    if settings.key_absent is None and _has_empty_keys(table, settings):
        name = table_name(table)
        raise BadInput(
            f"{name}: column {settings.column_key!r} holds empty keys, which some sinks write for rows without a key "
            f"and which would all be one key; say what they are with `hardpack adopt {name} --set key.absent=empty` "
            "(no key) or key.absent=null (a key like any other)."
        )


def topic_beside(table: Table, settings: Settings) -> str:
    """Returns the text column named like the log's column, with `topic` for `partition`; empty when there is none.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
    """
    log = LogColumns.of(table.schema(), settings).log
    before, named, behind = log.columns[0].name.rpartition("partition")
    column = find_column(table.schema(), f"{before}topic{behind}") if named and len(log.columns) == 1 else None
    return column.name if column and isinstance(column.field_type, StringType) else ""


def topics_in(table: Table, path: str) -> list[str]:
    """Returns the names of Kafka topics that a table's files are known to hold, sorted.

    Bounds tell the least and the greatest name of many rows, so that names between may be missing.

    Args:
        table: as pyiceberg loaded it.
        path: of the column with the topic's name.
    """
    column = find_column(table.schema(), path)
    if column is None:
        return []
    names, untold = set[bytes](), list[str]()
    for file in table_files(table):
        low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
        if low is None or high is None or len(low) >= SURE_LENGTH:
            # some writers cut long bounds, by which names that begin alike cannot be told apart
            untold.append(file.file_path)
        else:
            names |= {low, high}
    footers = Footers(table.io, table.location(), table.name_mapping(), (column,)).look(untold[-MOST_FOOTERS:])
    names |= {end for bounds in footers.values() for end in bounds.get(column.field_id, SILENT)[1:] if end is not None}
    return [name.decode(errors="replace") for name in sorted(names)]


def check_topics(table: Table, settings: Settings, path: str) -> None:
    """Checks that a log is of one Kafka topic, as far as bounds tell, since each topic's offsets begin anew.

    Args:
        table: as pyiceberg loaded it.
        settings: its settings.
        path: of the column with the topic's name.

    Raises:
        BadInput: the table holds several topics, and the log is named without the topic's column.
    """
    log = LogColumns.of(table.schema(), settings).log
    if path in [column.name for column in log.columns]:
        return
    if len(topics := topics_in(table, path)) > 1:
        name = table_name(table)
        raise BadInput(
            f"{name}: column {path!r} names several topics, {topics[0]!r} and {topics[1]!r} among them, whose offsets "
            f"each begin anew, expected logs that are named with their topic; `hardpack adopt {name} --set "
            f"column.partition={path},{settings.column_partition}` names them so. Rename the column if it is none of "
            "Kafka's."
        )


def _has_empty_keys(table: Table, settings: Settings) -> bool:
    """Returns whether a key is empty, by lower bounds, or by the first rows of sampled files that have none.

    An empty key is the least of all values, so that a file's lower bound tells it.
    """
    key = LogColumns.of(table.schema(), settings).plain_key
    if key is None:
        return False
    untold: list[IceFile] = []
    for file in table_files(table):
        bound = (file.lower_bounds or {}).get(key.field_id)
        if bound == b"":
            return True
        if bound is None and (file.null_value_counts or {}).get(key.field_id) != file.record_count:
            untold.append(file)
    files, schema = DataFiles.of(table), table.schema()
    last = [of_manifest(file, files.specs[file.spec_id], schema) for file in untold[-SAMPLED_FILES:]]
    return any(_empty_in(files, file, key) for file in last)


def _empty_in(files: DataFiles, file: ContentFile, key: LogColumn) -> bool:
    import pyarrow.compute as pc

    first = next(files.read(file, [key]), None)
    return first is not None and bool(pc.any(pc.equal(pc.binary_length(first[key.name]), 0)).as_py())


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
