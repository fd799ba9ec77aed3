"""Which data files hold the rows of a log in one snapshot, and what was deleted of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.table import FileScanTask, Table

from hardpack.errors import BadInput
from hardpack.files.content_file import ContentFile, of_manifest
from hardpack.rules.model import DataFile, LogView, Partition
from hardpack.rules.settings import Settings
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import LogColumns, table_name
from hardpack.table.log_views import ManifestCache, table_logs


@dataclass(frozen=True, slots=True)
class LogFile:
    """A data file that holds rows of a log. Offsets inclusive, times in ms; bounds are of all its rows."""

    content: ContentFile
    first_offset: int
    last_offset: int
    latest: int
    """Greatest timestamp, -1 where no row has one, Long.MAX where nothing tells it."""
    deletes: tuple[IceFile, ...]
    """Delete files that may name some of its rows."""
    shared: bool
    """Whether it may hold rows of other logs too."""
    control: bool
    """Whether it may hold control rows."""


class SnapshotLogs:
    """The logs of one snapshot of a table, by metadata."""

    def __init__(
        self,
        table: Table,
        settings: Settings,
        memory: ManifestCache | None = None,
        partitions: Iterable[Partition] | None = None,
    ) -> None:
        """Look at the current snapshot.

        Args:
            table: as pyiceberg loaded it.
            settings: that fit the table.
            memory: what earlier looks at the manifests left.
            partitions: only these logs; None for all.
        """
        self.table, self.name = table, table_name(table)
        self.columns = LogColumns.of(table.schema(), settings)
        self._wanted = None if partitions is None else list(partitions)
        found = table_logs(table, settings, memory=memory, partitions=self._wanted)
        self.views: Mapping[str, LogView] = {str(view.partition): view for view in found.views}
        self._shared = found.mixed

    @cached_property
    def _tasks(self) -> dict[str, FileScanTask]:
        logs = self.columns.log
        # a file of several logs has no partition value to be found by
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

    def files(self, view: LogView) -> list[LogFile]:
        """Returns the data files of a log, by their first offset.

        Raises:
            BadInput: rows of the log have no place in it, or nobody but Spark can tell what was deleted.
        """
        if view.trouble:
            raise BadInput(f"{self.name}: partition {view.partition} cannot be read in order: {view.trouble}.")
        own = [self._log_file(file, shared=False) for file in view.files]
        shared = [self._log_file(file, shared=True) for file in self._shared]
        return sorted([*own, *shared], key=lambda f: (f.first_offset, f.last_offset, f.content.path))

    def _log_file(self, file: DataFile, shared: bool) -> LogFile:
        task = self._tasks[file.path]
        content = of_manifest(task.file, self.table.specs()[task.file.spec_id], self.table.schema())
        control = self.columns.control
        nulls = task.file.null_value_counts or {}
        return LogFile(
            content,
            0 if file.trouble else file.min_offset,
            LONG_MAX if file.trouble else file.max_offset,
            LONG_MAX if file.trouble else -1 if file.max_timestamp is None else file.max_timestamp,
            tuple(sorted(task.delete_files, key=lambda f: f.file_path)),
            shared,
            control is not None and nulls.get(control.field_id) != file.rows,
        )
