"""A topic's rows in order of offset, from one snapshot, as a consumer of the Kafka topic is given its records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from hardpack.errors import BadInput, some_of
from hardpack.files.data_files import DataFiles, leaf
from hardpack.files.key_filter import KeyFilters
from hardpack.files.key_reader import key_filters, one_key
from hardpack.reading.bootstrap import Bootstrap, state_rows
from hardpack.reading.file_rows import Where, may_hold, runs
from hardpack.reading.log_files import LogFile, ReadableLog, SnapshotLogs
from hardpack.reading.ordered import Rows, SortedRun, merged
from hardpack.reading.repeated import OneRowAnOffset
from hardpack.reading.seek import Found, Sought, first_row
from hardpack.reading.sparse_index import SparseIndex, as_millis, fulfils
from hardpack.reading.transactions import Isolation, Outcomes, TransactionColumns
from hardpack.rules.model import Partition
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.table.given_key import arrow_values, given_values
from hardpack.table.manifest_cache import ManifestCache


class TopicReader:
    """Reads one snapshot of a topic. It starts no JVM, and holds a few batches at a time.

    Examples:
        >>> reader = hp.reader("db.topic")                             # doctest: +SKIP
        >>> for batch in reader.read(["0"], start=1000): ...           # doctest: +SKIP
    """

    def __init__(
        self,
        table: Table,
        settings: Settings,
        memory: ManifestCache | None = None,
        partitions: Collection[Partition] | None = None,
    ) -> None:
        """Opens the current snapshot.

        Args:
            table: as pyiceberg loaded it.
            settings: that fit the table.
            memory: what earlier looks have read of the manifests.
            partitions: only these logs will be asked for; None for any.

        Raises:
            BadInput: a partition that the table has not.
        """
        self.table = table
        self._logs = SnapshotLogs(table, settings, memory, listed(partitions))
        self.columns = self._logs.columns
        self._index = SparseIndex(DataFiles.of(table), self.columns)
        self._settings = settings

    @cached_property
    def _key_filters(self) -> KeyFilters:
        return key_filters(self._index.files, self.columns, self._settings.key_filter_min_rows, makes=False)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read, None of a table without one."""
        snapshot = self.table.current_snapshot()
        return snapshot.snapshot_id if snapshot else None

    @property
    def bytes_read(self) -> int:
        """Bytes of footers, page indexes and pages that were read so far."""
        return self._index.bytes_read

    @property
    def partitions(self) -> list[str]:
        """The names of the logs."""
        return self._logs.names

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Returns the schema of the batches that are read.

        Args:
            columns: the columns that are read, None for all.

        Raises:
            BadInput: the table has not one of them.
        """
        types = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        return pa.schema([(name, types.field(name).type) for name in self._chosen(columns)])

    def beginning_offsets(self) -> dict[str, int]:
        """Returns the first offset of each log, by log, as Kafka's consumer does: compaction does not move it."""
        return {name: self._logs.log(name).first_offset for name in self.partitions}

    def end_offsets(self) -> dict[str, int]:
        """Returns the offset after the last row of each log, by log, as Kafka's consumer does."""
        return {name: self._logs.log(name).end_offset for name in self.partitions}

    def seek(self, partition: Partition, offset: int) -> Found | None:
        """Returns the first row of a log at or after an offset, None where there is none."""
        return self._first(partition, Sought("offset", offset))

    def offset_for_time(self, partition: Partition, time: int) -> Found | None:
        """Returns the first row of a log, by offset, whose timestamp is this one or later, None where there is none.

        As Kafka's `offsetsForTimes`: rows of transactions and control rows count whatever became of them.

        Args:
            partition: the log.
            time: ms since the epoch.
        """
        # Kafka has no times before 1970, and a row without a time, which has -1, must not be found
        return self._first(partition, Sought("time", max(time, 0)))

    def _first(self, partition: Partition, sought: Sought) -> Found | None:
        log = self._logs.log(partition)
        return first_row(self._index, log.name, log.files, self._of_log(log), sought)

    def read(
        self,
        partitions: Iterable[Partition] | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        start_time: int | None = None,
        end_time: int | None = None,
        key: bytes | str | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: Isolation = "read_committed",
        by_time: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yields rows of some logs, in order of offset in each, one log after another.

        Args:
            partitions: the logs, None for all.
            start: least offset; None for the beginning.
            end: the offset after the last; None for the end of the log.
            start_time: begin with the first row of this time or later, ms since the epoch.
            end_time: end before the first row of this time or later, ms since the epoch.
            key: only rows of this key, as `explain` takes it.
            columns: of the table, None for all.
            isolation_level: with `read_committed` no row of a transaction that was aborted, and none from the first
                that is still open on; control rows are never among them.
            by_time: mix the logs by their rows' timestamps; in each log offsets stay in order.

        Raises:
            BadInput: a partition, column or key that the table has not, or rows that cannot be put in order.
        """
        if isolation_level not in get_args(Isolation):
            raise BadInput(f"isolation_level is {isolation_level!r}, expected {' or '.join(get_args(Isolation))}.")
        asked, chosen, only = self._asked(partitions), self._chosen(columns), self._of_key(key)
        if only is None:
            return
        read_of = [*chosen, self.columns.timestamp.name] if by_time else chosen
        logs = [
            partial(self._log, log, self._span(log, start, end, start_time, end_time), only, read_of, isolation_level)
            for log in asked
        ]
        timed = (SortedRun(-LONG_MAX, partial(self._timed, log)) for log in logs)
        read = merged(timed, together=False) if by_time else _one_by_one(logs)
        for _, batch in read:
            yield batch.select(chosen)

    def bootstrap(self, partitions: Iterable[Partition] | None = None) -> Bootstrap:
        """Returns the latest row of each key, and by log the offset at which to go on in Kafka.

        A consumer that takes the rows as its state and goes on in Kafka at these offsets misses no record and gets none
        twice, if the sink brings each log's records in order. Rows without a key are left out. It holds 24 bytes for
        each key, and about 90 while it puts them together.

        Args:
            partitions: the logs, None for all.

        Raises:
            BadInput: a partition that the table has not, or rows that cannot be put in order.
        """
        logs = self._asked(partitions)
        ends = [self._committed_to(log) for log in logs]
        names = self._chosen(None)
        keys = list(dict.fromkeys(column.path[0] for column in self.columns.keys))

        def rows() -> Iterator[pa.RecordBatch]:
            for log, end in zip(logs, ends, strict=True):
                read = partial(self._state_columns, log, end, keys, names)
                yield from state_rows(self.columns, read, str(self.snapshot_id).encode())

        return Bootstrap(
            self.snapshot_id,
            {log.name: end for log, end in zip(logs, ends, strict=True)},
            (batch.select(names) for batch in rows()),
        )

    def _state_columns(
        self, log: ReadableLog, end: int, keys: Sequence[str], all_columns: Sequence[str], keys_alone: bool
    ) -> Iterator[Rows]:
        return self._log(log, (0, end), {}, keys if keys_alone else all_columns, "read_committed")

    def _committed_to(self, log: ReadableLog) -> int:
        """Returns the offset after the last row that a consumer of committed rows sees."""
        transactions = TransactionColumns.of(self.columns)
        return (
            min(log.end_offset, self._outcomes(log, log.decided_to, transactions).last_stable)
            if transactions
            else log.end_offset
        )

    def _timed(self, read: partial[Iterator[Rows]]) -> Iterator[Rows]:
        """Yields rows with the greatest timestamp so far as key, by which they are mixed with rows of other logs."""
        latest = -LONG_MAX
        for _, batch in read():
            times = np.maximum.accumulate(np.maximum(as_millis(leaf(batch, self.columns.timestamp)), latest))
            latest = int(times[-1])
            yield times, batch

    def _log(
        self, log: ReadableLog, offsets: tuple[int, int], only: Where, chosen: Sequence[str], isolation: Isolation
    ) -> Iterator[Rows]:
        mapped, (start, end) = self.columns, offsets
        transactions, outcomes = TransactionColumns.of(mapped), None
        if transactions and isolation == "read_committed":
            outcomes = self._outcomes(log, start, transactions)
            end = min(end, outcomes.last_stable)
        names = [*chosen, *(transactions.names if transactions else ())]
        # where an offset stands twice, the row that is kept may have another key, so the key is compared after that
        late = only if only and log.may_repeat else {}
        rows = self._rows(log, [*names, *(c.name for c in late)], (start, end), {} if late else only, log.files)
        for keys, batch in rows:
            seen = np.ones(len(batch), bool)
            if transactions:
                seen &= outcomes.seen(batch) if outcomes else ~transactions.roles(batch).control
            for column, wanted in late.items():
                seen &= fulfils(leaf(batch, column), wanted)
            if seen.any():
                yield (keys, batch) if seen.all() else (keys[seen], batch.filter(pa.array(seen)))

    def _outcomes(self, log: ReadableLog, start: int, columns: TransactionColumns) -> Outcomes:
        # rows that a pass has covered are of no open transaction
        begin = min(start, log.decided_to)
        files = log.files if log.may_repeat else tuple(file for file in log.files if file.transactions)
        return Outcomes.of(
            columns, (batch for _, batch in self._rows(log, columns.names, (begin, LONG_MAX), {}, files))
        )

    def _rows(
        self, log: ReadableLog, names: Iterable[str], offsets: tuple[int, int], only: Where, files: Iterable[LogFile]
    ) -> Iterator[Rows]:
        """Yields the rows of a log by offset, one row for each offset; a file is opened when it is its turn."""
        mapped, (start, end) = self.columns, offsets
        needed = [c.name for c in (mapped.offset, mapped.leader_epoch) if c]
        projected, own = self.table.schema().select(*dict.fromkeys([*names, *needed])), self._of_log(log)

        wanted = cache(lambda: one_key(mapped, only, log.name))

        def may_hold_key(file: LogFile) -> bool:
            if not may_hold(file, only):
                return False
            large = only and file.content.rows >= self._settings.key_filter_min_rows
            return not (large and self._key_filters.rules_out(file.content, log.name, wanted))

        def of_file(file: LogFile) -> Iterator[Rows]:
            return merged(runs(self._index, file, projected, offsets, {**own, **only} if file.shared else only))

        rows = merged(
            SortedRun(max(file.first_offset, start), partial(of_file, file), file.content.path)
            for file in files
            if file.first_offset < end and file.last_offset >= start and may_hold_key(file)
        )
        return OneRowAnOffset(self._logs.name, log.name, mapped).of(rows)

    def _span(
        self, log: ReadableLog, start: int | None, end: int | None, start_time: int | None, end_time: int | None
    ) -> tuple[int, int]:
        first, last = max(start or 0, 0), log.end_offset if end is None else end
        if start_time is not None:
            row = self.offset_for_time(log.partition, start_time)
            first = max(first, log.end_offset if row is None else row.offset)
        if end_time is not None and (row := self.offset_for_time(log.partition, end_time)):
            last = min(last, row.offset)
        return first, last

    def _asked(self, partitions: Iterable[Partition] | None) -> list[ReadableLog]:
        partitions = listed(partitions)
        names = self.partitions if partitions is None else dict.fromkeys(map(str, partitions))
        return [self._logs.log(name) for name in names]

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        columns, all_columns = listed(columns), [field.name for field in self.table.schema().fields]
        for name in columns or ():
            if name not in all_columns:
                raise BadInput(
                    f"{self._logs.name}: there is no column {name!r}, expected some of {some_of(all_columns, name)}."
                )
        return all_columns if columns is None else list(dict.fromkeys(columns))

    def _of_key(self, given: bytes | str | None) -> Where | None:
        """Returns the filter for rows of a key; None where no row can match, as what was given stands for no key."""
        if given is None:
            return {}
        try:
            key = given.encode() if isinstance(given, str) else given
        except UnicodeEncodeError:
            raise BadInput(f"{self._logs.name}: the key asked for is no text, as it has half a character.") from None
        values = given_values(self.table, self.columns, key)
        absent = self.columns.empty_key_is_absent and key == b""
        return None if absent or all(v is None for v in values.values()) else arrow_values(values)

    def _of_log(self, log: ReadableLog) -> Where:
        """Returns the filter that tells rows of a log from rows of other logs in the same file."""
        columns = self.columns.log
        values = columns.values(log.name) or ()
        return arrow_values(dict(zip(columns.columns, values, strict=True))) if values else {}


def listed(given: Any) -> list[Any] | None:
    """Returns names as a list, where one name may be given instead of several; None stays None."""
    if given is None:
        return None
    return [given] if isinstance(given, str | int) else list(given)


def _one_by_one(logs: Iterable[Callable[[], Iterator[Rows]]]) -> Iterator[Rows]:
    for log in logs:
        yield from log()
