"""What a consumer sees of transactions: nothing from the last stable offset on, and no row that was aborted.

The rules are those of `hardpack.rules.reference.transactions`, on arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardpack.files.data_files import leaf
from hardpack.files.key_hash import longs
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import LogColumns
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

Isolation = Literal["read_committed", "read_uncommitted"]
"""Kafka's `isolation.level`."""
NOBODY = -1
"""Stands for the producer of a row that names none; Kafka's ids begin with 0."""


class Roles(NamedTuple):
    """The part that rows play in transactions; each array has one entry for each row."""

    offsets: NDArray[np.int64]
    producers: NDArray[np.int64]
    transactional: NDArray[np.bool_]
    control: NDArray[np.bool_]
    aborts: NDArray[np.bool_]

    def of_producers(self, rows: NDArray[np.bool_]) -> dict[int, NDArray[np.intp]]:
        """Returns by producer the numbers of its rows, of those that a mask chooses."""
        own = np.flatnonzero(rows)
        together = own[np.argsort(self.producers[own], kind="stable")]
        names, firsts = np.unique(self.producers[together], return_index=True)
        return dict(zip(names.tolist(), np.split(together, firsts[1:]), strict=True)) if len(own) else {}


@dataclass(frozen=True, slots=True)
class TransactionColumns:
    """The columns that tell of transactions, and that of the offset."""

    offset: LogColumn
    producer_id: LogColumn
    transactional: LogColumn
    control: LogColumn

    @classmethod
    def of(cls, columns: LogColumns) -> TransactionColumns | None:
        """Returns these columns of a table, None where it maps no columns of transactions."""
        if columns.producer_id and columns.transactional and columns.control:
            return cls(columns.offset, columns.producer_id, columns.transactional, columns.control)
        return None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [c.name for c in (self.offset, self.producer_id, self.transactional, self.control)]

    def roles(self, batch: pa.RecordBatch) -> Roles:
        """Returns the part that each row of a batch with these columns plays."""
        control_cells = leaf(batch, self.control)
        control = np.asarray(control_cells.is_valid().to_numpy(zero_copy_only=False))
        types = pc.utf8_lower(control_cells.cast(pa.string()))
        return Roles(
            longs(leaf(batch, self.offset)),
            np.asarray(leaf(batch, self.producer_id).cast(pa.int64()).fill_null(NOBODY)),
            np.asarray(leaf(batch, self.transactional).fill_null(False)) & ~control,
            control,
            np.asarray(pc.is_in(types, pa.array(["abort", "0"])).fill_null(False)),
        )


@dataclass(frozen=True)
class Outcomes:
    """How the transactions of a log ended."""

    columns: TransactionColumns
    markers: Mapping[int, tuple[NDArray[np.int64], NDArray[np.bool_]]]
    """By producer the offsets of its control rows, rising, and which of them are aborts."""
    last_stable: int
    """First offset of the earliest transaction that is still open, Long.MAX when there is none."""

    @classmethod
    def of(cls, columns: TransactionColumns, batches: Iterable[pa.RecordBatch]) -> Outcomes:
        """Finds how the transactions of a log ended, by its rows.

        Args:
            columns: the table's.
            batches: with these columns, in order of offset, from the first row on that may be undecided.
        """
        ends: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        first_open: dict[int, int] = {}
        for batch in batches:
            roles = columns.roles(batch)
            for producer, rows in roles.of_producers(roles.control).items():
                ends[producer] += zip(roles.offsets[rows].tolist(), roles.aborts[rows].tolist(), strict=True)
                if first_open.get(producer, LONG_MAX) < ends[producer][-1][0]:
                    del first_open[producer]
            for producer, rows in roles.of_producers(roles.transactional).items():
                decided = ends[producer][-1][0] if producer in ends else -1
                later = roles.offsets[rows][roles.offsets[rows] > decided]
                if len(later):
                    first_open.setdefault(producer, int(later[0]))
        markers = {
            producer: (np.array([o for o, _ in own], np.int64), np.array([abort for _, abort in own], bool))
            for producer, own in ends.items()
        }
        return cls(columns, markers, min(first_open.values(), default=LONG_MAX))

    def seen(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Returns which rows of a batch a consumer of committed rows sees."""
        roles = self.columns.roles(batch)
        seen = ~roles.control & (roles.offsets < self.last_stable)
        for producer, rows in roles.of_producers(roles.transactional).items():
            if producer in self.markers:
                offsets, aborts = self.markers[producer]
                following = np.searchsorted(offsets, roles.offsets[rows], "right")
                decided = following < len(offsets)
                seen[rows[decided]] &= ~aborts[following[decided]]
        return seen
