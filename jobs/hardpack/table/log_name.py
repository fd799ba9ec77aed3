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
"""Bounds of texts with fewer characters than this were not truncated, whichever writer wrote them."""
FOOTER_LENGTH = 64
"""Texts with fewer characters than this were not truncated in a Parquet footer, whichever writer wrote it."""
TOPIC_PARTITION = re.compile(r"(?s)(.*)-(\d+)")

Among = list[list[tuple[LogColumn, list[Any]]]]
"""A condition on rows: for one of the outer entries, each column there has one of the values beside it."""


@dataclass(frozen=True)
class LogName:
    """The columns that name a row's log: that of the partition, or those of the topic and of the partition."""

    columns: tuple[LogColumn, ...]

    def __str__(self) -> str:
        return ",".join(column.name for column in self.columns)

    @property
    def field_ids(self) -> list[int]:
        """The field ids of the columns that name a log, in order."""
        return [column.field_id for column in self.columns]

    @property
    def is_text(self) -> bool:
        """Whether a log is named by a text; otherwise a number names it."""
        return len(self.columns) > 1 or isinstance(self.columns[0].field_type, StringType)

    def of(self, values: Sequence[Any]) -> Partition | None:
        """Returns the log of a row, None where it names none.

        Args:
            values: what the row has in the columns, in order.
        """
        if None in values:
            return None
        if len(values) == 1:
            value: Partition = values[0]
            return value
        # Kafka numbers partitions from 0 on; with negative numbers `a--1` could be of topic `a` or of topic `a-`
        return "-".join(map(str, values)) if values[-1] >= 0 else None

    def values(self, log: str) -> tuple[Any, ...] | None:
        """Returns the values that the columns have in the rows of a log; None where no log can have this name.

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
        """Returns the condition that holds for the rows of the given logs. A name that no log can have is left out.

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
        """Returns pyiceberg's filter for the rows of the given logs.

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
        """Returns for each column the place of its value among a file's partition values; None where it has none there.

        Args:
            spec: the partition spec of the file.
        """
        at = {f.source_id: n for n, f in enumerate(spec.fields) if isinstance(f.transform, IdentityTransform)}
        return tuple(at.get(number) for number in self.field_ids)

    def in_spec(self, spec: PartitionSpec) -> bool:
        """Returns whether a partition spec keeps logs apart: it has an identity field for each of the columns."""
        return None not in self.places(spec)


def value_by_bounds(column: LogColumn, metrics: ColumnFacts, longest: int | None = SURE_LENGTH - 1) -> Any:
    """Returns the value that all rows of a data file have in a column, None where its bounds prove none.

    Equal bounds prove it when no row is null, because every value lies between them.

    Args:
        column: the column.
        metrics: its null count and bounds in the file.
        longest: characters up to which a text was surely not truncated; None when no text was.
    """
    nulls, low, high = metrics
    if low is None or low != high or not (column.required or nulls == 0):
        return None
    value = from_bytes(cast(PrimitiveType, column.field_type), low)
    return None if longest is not None and isinstance(value, str) and len(value) > longest else value


def may_be_cut(column: LogColumn, metrics: ColumnFacts) -> bool:
    """Returns whether a column's bounds are texts that their writer may have truncated, so that they prove no value.

    Args:
        column: the column.
        metrics: its null count and bounds in the file.
    """
    return (
        isinstance(column.field_type, StringType) and len((metrics[1] or b"").decode(errors="replace")) >= SURE_LENGTH
    )


def named_columns(schema: Schema, names: str) -> LogName:
    """Returns the columns that name a log: one, or two with a comma between.

    Args:
        schema: the table's.
        names: the value of setting `column.partition`.

    Raises:
        ValueError: there is no such column.
    """
    return LogName(tuple(existing_column(schema, name) for name in separate_names(schema, names)))
