"""How a log is named: by the value of one column, or by a topic and its partition, as Kafka names a log `topic-0`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, In, Or
from pyiceberg.expressions.literals import literal
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType, StringType

from hardpack.rules.model import Partition
from hardpack.table.schema_columns import LogColumn, existing_column, separate_names

if TYPE_CHECKING:
    from hardpack.table.footers import ColumnFacts

SURE_LENGTH = 16
"""Bounds of texts that are shorter than this were not cut, whichever writer wrote them."""
FOOTER_LENGTH = 64
"""Texts in the statistics of a Parquet footer that are shorter than this were not cut, whichever writer wrote them."""
TOPIC_PARTITION = re.compile(r"(?s)(.*)-(\d+)")

Among = list[list[tuple[LogColumn, list[Any]]]]
"""A row is of some logs if for one of these, each of the columns has one of its values."""


@dataclass(frozen=True)
class LogName:
    """The columns that name a row's log: the partition's, or the topic's and the partition's."""

    columns: tuple[LogColumn, ...]

    def __str__(self) -> str:
        return ",".join(column.name for column in self.columns)

    @property
    def field_ids(self) -> list[int]:
        """The field ids of the columns that name a log, in order."""
        return [column.field_id for column in self.columns]

    @property
    def is_text(self) -> bool:
        """Whether logs have names, else numbers."""
        return len(self.columns) > 1 or isinstance(self.columns[0].field_type, StringType)

    def of(self, values: Sequence[Any]) -> Partition | None:
        """Returns the log of a row, None where it names none.

        Args:
            values: of the columns, in order.
        """
        if None in values:
            return None
        if len(values) == 1:
            value: Partition = values[0]
            return value
        # Kafka numbers partitions from 0 on, which keeps names apart
        return "-".join(map(str, values)) if values[-1] >= 0 else None

    def values(self, log: str) -> tuple[Any, ...] | None:
        """Returns what the columns have in the rows of a log, None where no log can be named so.

        Args:
            log: its name, or the text of its number.
        """
        parts: Sequence[str] = (log,)
        if len(self.columns) > 1:
            if (parsed := TOPIC_PARTITION.fullmatch(log)) is None:
                return None
            parts = parsed.groups()
        with suppress(ValueError):
            kinds = [cast(PrimitiveType, column.field_type) for column in self.columns]
            return tuple(literal(part).to(kind).value for part, kind in zip(parts, kinds, strict=True))
        return None

    def among(self, logs: Iterable[Partition]) -> Among:
        """Returns what rows of some logs have in the columns; nothing for logs that cannot be.

        Args:
            logs: their names or numbers.
        """
        by_prefix: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(list)
        for values in filter(None, (self.values(str(log)) for log in logs)):
            by_prefix[values[:-1]].append(values[-1])
        *before, last = self.columns
        return [
            [*((c, [v]) for c, v in zip(before, first, strict=True)), (last, own)] for first, own in by_prefix.items()
        ]

    def expression(self, logs: Iterable[Partition]) -> BooleanExpression:
        """Returns whether a row is of some logs, as pyiceberg takes it.

        Args:
            logs: their names or numbers.
        """
        in_any: BooleanExpression = AlwaysFalse()
        for one in self.among(logs):
            alternative: BooleanExpression = AlwaysTrue()
            for column, values in one:
                alternative = And(alternative, In(term=column.name, literals=set(values)))
            in_any = Or(in_any, alternative)
        return in_any

    def places(self, spec: PartitionSpec) -> tuple[int | None, ...]:
        """Returns which of a file's partition values is that of each column, None where none is.

        Args:
            spec: the partition spec of the file.
        """
        at = {f.source_id: n for n, f in enumerate(spec.fields) if isinstance(f.transform, IdentityTransform)}
        return tuple(at.get(number) for number in self.field_ids)

    def in_spec(self, spec: PartitionSpec) -> bool:
        """Returns whether a partition spec keeps logs apart."""
        return None not in self.places(spec)


def value_by_bounds(column: LogColumn, metrics: ColumnFacts, longest: int | None = SURE_LENGTH - 1) -> Any:
    """Returns the value that all rows of a data file have in a column, None where its bounds prove none.

    They do when they are equal, as every value lies between them, and no row is without one.

    Args:
        column: the column.
        metrics: what is known of it.
        longest: characters of a text that was not cut; None when none was.
    """
    nulls, low, high = metrics
    if low is None or low != high or not (column.required or nulls == 0):
        return None
    value = from_bytes(cast(PrimitiveType, column.field_type), low)
    return None if longest is not None and isinstance(value, str) and len(value) > longest else value


def may_be_cut(column: LogColumn, metrics: ColumnFacts) -> bool:
    """Returns whether bounds are of texts that their writer may have cut, so that they prove no value.

    Args:
        column: the column.
        metrics: what is known of it.
    """
    return (
        isinstance(column.field_type, StringType) and len((metrics[1] or b"").decode(errors="replace")) >= SURE_LENGTH
    )


def named_columns(schema: Schema, names: str) -> LogName:
    """Returns the columns that name a log: one, or two with a comma between.

    Args:
        schema: the table's.
        names: as the setting `column.partition` has them.

    Raises:
        ValueError: there is no such column.
    """
    return LogName(tuple(existing_column(schema, name) for name in separate_names(schema, names)))
