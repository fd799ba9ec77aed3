"""The verbs by which a table is read as the topic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hardpack.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from hardpack.reading.bootstrap import Bootstrap
    from hardpack.reading.reader import TopicReader
    from hardpack.reading.seek import Found
    from hardpack.rules.model import Partition
    from hardpack.rules.settings import Settings
    from hardpack.table.manifest_cache import ManifestCache


class OpenTable(Protocol):
    """A table that a verb works on."""

    table: Table
    memory: ManifestCache | None

    def checked_settings(self) -> Settings:
        """Returns the settings in force, once the table fits them."""


class ReadVerbs(ABC):
    """The verbs that read the tables of one catalog as topics. None of them starts a JVM."""

    @abstractmethod
    def session(self, table: str) -> OpenTable:
        """Opens a table for one verb."""

    def reader(self, table: str, partitions: Sequence[Partition] | None = None) -> TopicReader:
        """Opens the current snapshot of a table to be read as the topic; starts no JVM.

        Args:
            table: its name.
            partitions: only these logs will be asked for; None for any.

        Raises:
            BadInput: a wrong table or setting.
        """
        from hardpack.reading.reader import TopicReader

        session = self.session(table)
        return TopicReader(session.table, session.checked_settings(), session.memory, partitions)

    def read(
        self, table: str, partitions: Iterable[Partition] | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yields a table's rows by offset, as a consumer is given records; see `TopicReader.read` for the options."""
        from hardpack.reading.reader import listed

        asked = listed(partitions)
        return self.reader(table, asked).read(asked, **options)

    def seek(
        self, table: str, partition: Partition, offset: int | None = None, time: int | None = None
    ) -> Found | None:
        """Returns the first row of a log at or after an offset, or of a time or later; None where there is none.

        Args:
            table: its name.
            partition: the log.
            offset: an offset.
            time: ms since the epoch, instead of the offset.

        Raises:
            BadInput: both an offset and a time or neither, a wrong table or setting, or a partition that it has not.
        """
        if (offset is None) == (time is None):
            raise BadInput(f"{table}: expected either an offset or a time to seek.")
        reader = self.reader(table, [partition])
        return reader.offset_for_time(partition, time) if time is not None else reader.seek(partition, offset or 0)

    def bootstrap(self, table: str, partitions: Iterable[Partition] | None = None) -> Bootstrap:
        """Returns a table's state and where to go on in Kafka after it; see `TopicReader.bootstrap`."""
        from hardpack.reading.reader import listed

        asked = listed(partitions)
        return self.reader(table, asked).bootstrap(asked)
