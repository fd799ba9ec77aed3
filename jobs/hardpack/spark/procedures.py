"""Maintenance of a table through Iceberg's JVM API: procedures, expired snapshots, and files listed and deleted."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from hardpack.failures import java_error
from hardpack.spark.java_values import items, strings
from hardpack.spark.sql_text import literal, quoted
from hardpack.table.history import carried

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

log = logging.getLogger(__name__)
AT_ONCE = 1000
"""Files in one request to delete them."""


class Procedures:
    """The operations that maintenance needs of an Iceberg table, which Spark's catalog has loaded."""

    spark: SparkSession
    name: str
    _java: Any
    _ice: Any
    _list: Any

    def call(self, procedure: str, arguments: str) -> list[Row]:
        """Runs one of Iceberg's procedures on the table and returns its rows; the arguments are SQL."""
        catalog, table = quoted(self.name.partition(".")[:1]), literal(quoted(self.name))
        statement = f"CALL {catalog}.system.{procedure}(table => {table}, {arguments})"
        rows: list[Row] = self.spark.sql(statement).collect()
        return rows

    @cached_property
    def lists(self) -> bool:
        """Whether the table's FileIO can list a folder."""
        gateway: Any = self.spark.sparkContext._gateway
        return bool(is_instance_of(gateway, self._java.io(), "org.apache.iceberg.io.SupportsPrefixOperations"))

    def orphans(self, folder: str, older_than: str, dry_run: bool) -> list[str]:
        """Removes the files under a folder that no snapshot knows of, by Iceberg's procedure; returns their paths.

        Args:
            folder: the folder whose files are looked at; one that does not exist has none.
            older_than: only files from before this time, a timestamp in Spark's SQL.
            dry_run: only return what would be removed.
        """
        # else Iceberg lists by Hadoop, which has no file system for s3://
        flags = f"dry_run => {str(dry_run).lower()}, prefix_listing => {str(self.lists).lower()}"
        arguments = f"older_than => {older_than}, location => {literal(folder)}, {flags}"
        try:
            return [row[0] for row in self.call("remove_orphan_files", arguments)]
        except Py4JJavaError as error:
            # the folder comes into being with the table's first file
            if f"/{folder.rpartition('/')[2]} does not exist" in str(error.java_exception):
                return []
            raise

    def orphans_among(self, files: Mapping[str, int], older_than: str, dry_run: bool) -> list[str]:
        """Removes those of the given files that no snapshot knows of, by Iceberg's procedure; returns their paths.

        Args:
            files: when each file was made, ms since the epoch, by its path, which begins with the table's location.
            older_than: only files from before this time, a timestamp in Spark's SQL.
            dry_run: only return what would be removed.
        """
        view = f"hardpack_files_{uuid.uuid4().hex}"
        rows = [(path, datetime.fromtimestamp(at / 1000, UTC)) for path, at in files.items()]
        self.spark.createDataFrame(rows, "file_path string, last_modified timestamp").createTempView(view)
        try:
            flags = f"dry_run => {str(dry_run).lower()}, file_list_view => {literal(view)}"
            return [row[0] for row in self.call("remove_orphan_files", f"older_than => {older_than}, {flags}")]
        finally:
            self.spark.catalog.dropTempView(view)

    def listed(self, folder: str) -> dict[str, int]:
        """Returns the paths of the files under a folder, and when each was made, ms by the storage's clock.

        The table's FileIO lists the files. The result is empty when the FileIO cannot list or there is no such folder.
        """
        if not self.lists:
            return {}
        try:
            files = items(self.spark._jvm, self._java.io().listPrefix(folder))
            return {str(file.location()): int(file.createdAtMillis()) for file in files}
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception) or "does not exist" in str(error.java_exception):
                return {}
            raise

    def delete_files(self, paths: Iterable[str]) -> None:
        """Deletes files through the table's FileIO."""
        io = self._java.io()
        for path in paths:
            io.deleteFile(path)

    def rewrite_manifests(self) -> int:
        """Puts many small manifests into few, and returns how many were rewritten.

        Iceberg's own procedure is not used, as it sets nothing in the summary, in which a sink may look for its last
        commit.
        """
        self._java.refresh()
        summary = strings(self.spark._jvm, self._java.currentSnapshot().summary())
        action = self._ice.spark.actions.SparkActions.get(self.spark._jsparkSession).rewriteManifests(self._java)
        action.option("use-caching", "false")
        for name, value in carried(summary).items():
            action.snapshotProperty(name, value)
        return len(items(self.spark._jvm, action.execute().rewrittenManifests()))

    def expire_snapshots(self, before: int, least: int, may_go: Callable[[str], bool]) -> tuple[int, int]:
        """Expires snapshots, then deletes the files that no snapshot needs any more, each only if `may_go` allows it.

        Iceberg's own procedure is not used, as it would delete whatever the table's metadata names, wherever it lies.

        Args:
            before: time, ms; older snapshots expire.
            least: so many snapshots stay, however old they are.
            may_go: whether a file may be deleted, by its path.

        Returns:
            How many files were deleted, and how many stay because `may_go` refused.
        """
        action = self._ice.spark.actions.SparkActions.get(self.spark._jsparkSession).expireSnapshots(self._java)
        expired = action.expireOlderThan(before).retainLast(least).expireFiles()
        view = f"hardpack_expired_{uuid.uuid4().hex}"
        expired.createOrReplaceTempView(view)
        deleted = left = 0
        waiting: list[str] = []
        try:
            for row in self.spark.table(view).select("path").toLocalIterator():
                if not may_go(row["path"]):
                    left += 1
                    continue
                waiting.append(row["path"])
                if len(waiting) >= AT_ONCE:
                    deleted += self._delete_at_once(waiting)
                    waiting = []
            deleted += self._delete_at_once(waiting)
        finally:
            self.spark.catalog.dropTempView(view)
        return deleted, left

    def _delete_at_once(self, paths: Sequence[str]) -> int:
        """Deletes files and returns how many: in one request where the storage has such, 0 if one of these fails."""
        gateway: Any = self.spark.sparkContext._gateway
        if not is_instance_of(gateway, self._java.io(), "org.apache.iceberg.io.SupportsBulkOperations"):
            self.delete_files(paths)
        elif paths:
            listed = self._list()
            for path in paths:
                listed.add(path)
            try:
                self._java.io().deleteFiles(listed)
            except Py4JJavaError as error:
                # no snapshot needs these files, so orphan removal takes those that stay; the others are deleted anyway
                log.warning("%s: not all expired files could be deleted: %s", self.name, java_error(error)[1])
                return 0
        return len(paths)
