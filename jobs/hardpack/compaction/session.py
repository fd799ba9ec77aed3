"""One table as a verb works on it: loaded once by pyiceberg and, once that is needed, by Iceberg's JVM API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from hardpack.clock import clock
from hardpack.files.data_files import DataFiles
from hardpack.home import default_home
from hardpack.rules.settings import NONE, Settings
from hardpack.table.columns import LogColumns, settings_of, table_name
from hardpack.table.layout import check_layout

if TYPE_CHECKING:
    from hardpack.spark.jvm_table import JvmTable
    from hardpack.table.manifest_cache import ManifestCache


class TableSession:
    """What a verb needs of the one table that it works on. For one thread."""

    def __init__(
        self,
        table: Table,
        open_jvm: Callable[[], JvmTable],
        policy: Mapping[str, str] = NONE,
        home: Path | None = None,
        clock: Callable[[], int] = clock,
        memory: ManifestCache | None = None,
    ) -> None:
        """Begins work on a table.

        Args:
            table: as pyiceberg loaded it.
            open_jvm: loads the table through Spark's catalog, which starts a JVM.
            policy: settings of the table's policy.
            home: folder for validation results and Data Docs.
            clock: tells the time, ms.
            memory: what earlier looks have read of the manifests.
        """
        self.table, self.policy, self.clock, self.memory = table, policy, clock, memory
        self.home = home or default_home()
        self._open_jvm = open_jvm

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return table_name(self.table)

    @property
    def base(self) -> int | None:
        """Id of the snapshot that the table stood at when it was loaded, None of a table without one."""
        snapshot = self.table.current_snapshot()
        return snapshot.snapshot_id if snapshot else None

    @property
    def settings(self) -> Settings:
        """The settings in force.

        Raises:
            BadInput: the table was not adopted, or a setting is wrong.
        """
        return settings_of(self.table, self.policy)

    def columns(self, settings: Settings) -> LogColumns:
        """Returns the mapped columns as the table calls them now.

        Args:
            settings: that fit the table.
        """
        return LogColumns.of(self.table.schema(), settings)

    def checked_settings(self) -> Settings:
        """Returns the settings in force, once the table's columns and partitioning fit them.

        Raises:
            BadInput: naming the first thing that is wrong.
        """
        settings = self.settings
        check_layout(self.table, settings)
        return settings

    @cached_property
    def jvm(self) -> JvmTable:
        """The table by Iceberg's JVM API."""
        return self._open_jvm()

    def data_files(self, settings: Settings) -> DataFiles:
        """Returns the reader and writer of the table's files; tasks that may run at once share the rate limit evenly.

        Args:
            settings: of the pass.
        """
        threads = settings.log_cleaner_threads or sys.maxsize
        at_once = min(threads, max(1, self.jvm.spark.sparkContext.defaultParallelism))
        return DataFiles.of(self.table, settings.log_cleaner_io_max_bytes_per_second / at_once, threads, settings)
