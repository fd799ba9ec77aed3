"""Which data files hold the rows of a log in one snapshot, and what was deleted of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.table import FileScanTask, Table

from hardpack.errors import BadInput
from hardpack.files.content_file import ContentFile, of_manifest
from hardpack.files.data_files import DataFiles
from hardpack.rules.model import DataFile, LogView, Partition, may_repeat
from hardpack.rules.selection import first_dirty_offset
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import NO_LOG, LogColumns, table_name
from hardpack.table.log_views import table_logs
from hardpack.table.manifest_cache import ManifestCache

MEND = "set them, or delete them by rewriting their file, as row-level deletes leave them there"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A data file that holds rows of a log. Offsets inclusive, times in ms; bounds are of all its rows."""

    content: ContentFile
    listed: IceFile
    """Its entry in the manifest."""
    first_offset: int
    last_offset: int
    latest: int
    """Greatest timestamp, -1 where no row has one, Long.MAX where nothing tells it."""
    deletes: tuple[IceFile, ...]
    """Delete files that may name some of its rows."""
    shared: bool
    """Whether it may hold rows of other logs too."""
    transactions: bool
    """Whether it may hold rows of transactions, or control rows."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """The rows of one log in mixed files."""

    partition: Partition
    first_offset: int
    end_offset: int
    trouble: str = ""
    """Why the rows have no place in a log; empty when they have one."""

    def beside(self, other: _Shared | None) -> _Shared:
        """Returns these rows together with others of the same log."""
        if other is None:
            return self
        first, end = min(self.first_offset, other.first_offset), max(self.end_offset, other.end_offset)
        return _Shared(self.partition, first, end, self.trouble or other.trouble)


@dataclass(frozen=True, slots=True)
class ReadableLog:
    """A log of one snapshot."""

    name: str
    partition: Partition
    first_offset: int
    """Kafka's beginning offset; compaction does not move it."""
    end_offset: int
    """The offset after the last row."""
    decided_to: int
    """Offset below which rows are of no open transaction: a pass has covered them, and none came late."""
    files: tuple[LogFile, ...]
    """By their first offset."""

    @property
    def may_repeat(self) -> bool:
        """Whether metadata allows an offset to stand twice."""
        return may_repeat((file.first_offset, file.last_offset, file.content.rows) for file in self.files)


class SnapshotLogs:
    """The logs of one snapshot of a table, by metadata."""

    def __init__(
        self,
        table: Table,
        settings: Settings,
        memory: ManifestCache | None = None,
        partitions: Iterable[Partition] | None = None,
    ) -> None:
        """Reads the metadata of the current snapshot.

        Args:
            table: as pyiceberg loaded it.
            settings: that fit the table.
            memory: what earlier looks have read of the manifests.
            partitions: only these logs; None for all.
        """
        self.table, self.name, self._settings = table, table_name(table), settings
        self.columns = LogColumns.of(table.schema(), settings)
        self._wanted = None if partitions is None else list(partitions)
        logs = table_logs(table, settings, memory=memory, partitions=self._wanted)
        self._views, self._shared = {view.name: view for view in logs.views}, logs.mixed
        self._logs: dict[str, ReadableLog] = {}

    @property
    def names(self) -> list[str]:
        """The names of the logs; logs that only mixed files hold come last."""
        wanted = None if self._wanted is None else {str(p) for p in self._wanted}
        all_names = dict.fromkeys([*self._views, *self._in_shared])
        return [name for name in all_names if wanted is None or name in wanted]

    def log(self, partition: Partition) -> ReadableLog:
        """Returns a log.

        Raises:
            BadInput: the table has none of this name, its rows have no place in it, or nobody but Spark can tell what
                was deleted.
        """
        name = str(partition)
        if name not in self._logs:
            if name not in self.names:
                everyone = self if self._wanted is None else SnapshotLogs(self.table, self._settings)
                names = ", ".join(everyone.names) or "none"
                raise BadInput(f"{self.name}: there is no partition {name}, it has {names}.")
            self._logs[name] = self._readable(name)
        return self._logs[name]

    def _readable(self, name: str) -> ReadableLog:
        view, shared = self._views.get(name), self._in_shared.get(name)
        if trouble := (view.trouble if view else "") or (shared.trouble if shared else ""):
            raise BadInput(f"{self.name}: partition {name} cannot be read in order: {trouble}.")
        firsts = [view.log_start] if view and (view.segments or view.state.log_start is not None) else []
        ends = [view.log_end] if view else []
        if shared:
            firsts.append(shared.first_offset)
            ends.append(shared.end_offset)
        files = [self._log_file(file, shared=False) for file in (view.files if view else ())]
        files += [self._log_file(file, shared=True) for file in (self._shared if shared else ())]
        return ReadableLog(
            name, view.partition if view else shared.partition if shared else name, min(firsts, default=0), max(ends),
            _decided_to(view, shared),
            tuple(sorted(files, key=lambda f: (f.first_offset, f.last_offset, f.content.path))),
        )  # fmt: skip

    @cached_property
    def _in_shared(self) -> dict[str, _Shared]:
        """By log its rows in mixed files. The rows are read, as nothing else tells whose they are."""
        shared: dict[str, _Shared] = {}
        files, log, offset = DataFiles.of(self.table), self.columns.log.columns, self.columns.offset
        for file in self._shared:
            for batch in files.read(self._log_file(file, shared=True).content, [*log, offset]):
                names = [column.name for column in log]
                rows = pa.Table.from_batches([batch]).group_by(names)
                of_logs = rows.aggregate(
                    [(offset.name, "min_max"), (offset.name, "count", pc.CountOptions("only_null"))]
                )
                for row in of_logs.to_pylist():
                    own = self._rows_of_log(row, [row[name] for name in names])
                    shared[str(own.partition)] = own.beside(shared.get(str(own.partition)))
        return shared

    def _rows_of_log(self, row: dict[str, Any], values: list[Any]) -> _Shared:
        named, offset = self.columns.log.of(values), self.columns.offset.name
        least, greatest = row[f"{offset}_min_max"]["min"], row[f"{offset}_min_max"]["max"]
        trouble = ""
        if named is None:
            trouble = f"rows have no {str(self.columns.log)!r}, expected the number or name of their log; {MEND}"
        elif row[f"{offset}_count"]:
            trouble = f"rows have no {offset!r}, expected their offset in the log; {MEND}"
        elif least < 0:
            trouble = f"a row has {offset!r} {least}, expected an offset from 0 on; {MEND}"
        return _Shared(NO_LOG if named is None else named, least or 0, (greatest or 0) + 1, trouble)

    @cached_property
    def _tasks(self) -> dict[str, FileScanTask]:
        logs = self.columns.log
        # a scan cannot find mixed files by the log, as they have no partition value for it
        narrow = self._wanted is not None and not self._shared
        scan = self.table.scan(row_filter=logs.expression(self._wanted or ())) if narrow else self.table.scan()
        try:
            return {task.file.file_path: task for task in scan.plan_files()}
        except ValueError as error:
            if "equality deletes" not in str(error):
                raise
            raise BadInput(
                f"{self.name}: equality deletes lie on its files, which only Spark can apply here; have them applied "
                "(rewrite_data_files with delete-file-threshold=1), or read the table with Spark."
            ) from error

    def _log_file(self, file: DataFile, shared: bool) -> LogFile:
        task = self._tasks[file.path]
        content = of_manifest(task.file, self.table.specs()[task.file.spec_id], self.table.schema())
        return LogFile(
            content,
            task.file,
            0 if file.trouble else file.min_offset,
            LONG_MAX if file.trouble else file.max_offset,
            LONG_MAX if file.trouble else -1 if file.max_timestamp is None else file.max_timestamp,
            tuple(sorted(task.delete_files, key=lambda f: f.file_path)),
            shared,
            self._may_tell_of_transactions(task.file),
        )

    def _may_tell_of_transactions(self, file: IceFile) -> bool:
        control, transactional = self.columns.control, self.columns.transactional
        if control is None or transactional is None:
            return False
        nulls, highs = file.null_value_counts or {}, file.upper_bounds or {}
        without = nulls.get(control.field_id) == file.record_count
        # Iceberg's bound of a boolean is one byte, which is 0 for false
        plain = nulls.get(transactional.field_id) == file.record_count or highs.get(transactional.field_id) == b"\0"
        return not (without and plain)


def _decided_to(view: LogView | None, shared: _Shared | None) -> int:
    """Returns the offset up to which passes have covered every row.

    It lies no higher than the first unseen row or row of a mixed file, which may be of an open transaction.
    """
    if view is None or view.state.checkpoint is None:
        return 0
    return min(first_dirty_offset(view), shared.first_offset if shared else LONG_MAX)
