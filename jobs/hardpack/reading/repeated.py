"""Offsets that stand twice, read as one row: the row that a pass would keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hardpack.errors import BadInput
from hardpack.files.data_files import leaf
from hardpack.reading.ordered import Rows, is_ascending
from hardpack.table.columns import LogColumns


@dataclass(frozen=True)
class OneRowAnOffset:
    """Settles offsets that stand twice by the rule of a pass: equal rows are one, else the greatest epoch wins."""

    name: str
    """The table's."""
    log: str
    columns: LogColumns

    def of(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Yields one row for each offset.

        Args:
            rows: in order; all of one offset come together.

        Raises:
            BadInput: rows of one offset differ, and no leader epoch decides between them.
        """
        for offsets, batch in rows:
            if (offsets[1:] > offsets[:-1]).all():
                yield offsets, batch
            else:
                yield self._settled(offsets, batch)

    def _settled(self, offsets: np.ndarray, batch: pa.RecordBatch) -> Rows:
        epochs = np.zeros(len(batch), np.int64)
        if self.columns.leader_epoch:
            # Kafka's epochs begin with 0, so a row without one has the least
            epochs = np.asarray(leaf(batch, self.columns.leader_epoch).cast(pa.int64()).fill_null(-1))
            order = np.lexsort((-epochs, offsets))
            if not is_ascending(order):
                offsets, epochs, batch = offsets[order], epochs[order], batch.take(pa.array(order))
        stands = np.concatenate([[True], offsets[1:] > offsets[:-1]])
        winners = np.flatnonzero(stands)[np.cumsum(stands) - 1]
        rivals = np.flatnonzero(~stands & (epochs == epochs[winners]))
        self._see_equal(offsets, batch, winners[rivals], rivals)
        return offsets[stands], batch.filter(pa.array(stands))

    def _see_equal(self, offsets: np.ndarray, batch: pa.RecordBatch, ones: np.ndarray, others: np.ndarray) -> None:
        compared = [name for name in batch.schema.names if name not in self.columns.ignored]
        left, right = (batch.select(compared).take(pa.array(rows)) for rows in (ones, others))
        if left.equals(right):
            return
        for at, row in enumerate(others.tolist()):
            if not _equal(left.slice(at, 1), right.slice(at, 1)):
                raise BadInput(
                    f"{self.name}: rows of partition {self.log} at offset {offsets[row]} differ, expected one row; "
                    "delete the wrong ones, map the column of the leader epoch with --set column.leader.epoch=NAME, "
                    "or name columns that may differ with --set duplicates.ignore=NAME."
                )


def _equal(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Returns whether two rows are equal, where NaN is equal to NaN."""
    return all(a.equals(b) or _alike(a, b) for a, b in zip(one.columns, other.columns, strict=True))


def _alike(one: pa.Array, other: pa.Array) -> bool:
    try:
        return repr(one.to_pylist()) == repr(other.to_pylist())
    except (ValueError, OverflowError):
        # Python cannot represent the value, and Arrow says that the two differ
        return False
