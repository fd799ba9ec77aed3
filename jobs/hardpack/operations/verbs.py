"""The verbs that tell how tables stand, from metadata alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hardpack.compaction.session import TableSession
from hardpack.operations.describe import TableDescription, describe
from hardpack.operations.readers import ReaderStatus, list_readers
from hardpack.operations.segments import SegmentStatus, table_segments
from hardpack.operations.status import LogStatus, table_status
from hardpack.rules.model import Partition
from hardpack.rules.times import HOUR_MS

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from hardpack.operations.what_if import WhatIf


class StatusVerbs(ABC):
    """Verbs that tell how the tables of one catalog stand. None of them starts a JVM or changes a table."""

    @abstractmethod
    def session(self, table: str | Table) -> TableSession:
        """Opens a table for one verb."""

    @abstractmethod
    def tables(self, pattern: str) -> list[str]:
        """Returns the adopted tables that a glob matches."""

    @abstractmethod
    def _now(self, now: int | None) -> int:
        """Returns the time that was given, else the clock's, ms."""

    def status(self, pattern: str = "*.*", now: int | None = None) -> list[LogStatus]:
        """Returns how every log of the matching tables stands."""
        at = self._now(now)
        return [s for name in self.tables(pattern) for s in table_status(self.session(name), at)]

    def status_of(self, table: Table | str, now: int | None = None) -> list[LogStatus]:
        """Returns how every log of one table stands; the table is given by its name or as it was loaded."""
        return table_status(self.session(table), self._now(now))

    def segments(
        self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None
    ) -> list[SegmentStatus]:
        """Returns the segments of a table's logs."""
        return table_segments(self.session(table), self._now(now), partitions)

    def describe(self, table: str, partitions: Sequence[Partition] | None = None) -> TableDescription:
        """Returns a table's settings, where each comes from, and what passes know of its logs."""
        return describe(self.session(table), partitions)

    def readers(self, table: str, now: int | None = None) -> list[ReaderStatus]:
        """Returns how far each named reader is, and whether tombstones wait for it."""
        return list_readers(self.session(table), self._now(now))

    def what_if(
        self,
        table: str,
        setting: str,
        values: Sequence[str],
        every_ms: int = HOUR_MS,
        now: int | None = None,
        partitions: Sequence[Partition] | None = None,
    ) -> WhatIf:
        """Returns what other values of a setting would have done to a table; see `hardpack.operations.what_if`."""
        from hardpack.operations.what_if import what_if

        return what_if(self.session(table), self._now(now), setting, values, every_ms, partitions)
