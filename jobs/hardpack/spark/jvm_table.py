"""A table by Iceberg's JVM API: staged reads of chosen files, and the one commit.

Py4J calls to a table stand here, in `commit` and in `procedures`. The classes behind them are internal to Iceberg's
Spark module (tested as `hardpack.spark.versions` says): scans are staged by group id, and reading that id selects them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaMember

from hardpack.files.content_file import ContentFile
from hardpack.rules.model import SnapshotRef
from hardpack.spark.commit import CommitChange, Commits
from hardpack.spark.java_values import items
from hardpack.spark.procedures import Procedures
from hardpack.spark.scan_tasks import ScanTasks
from hardpack.spark.sql_text import quoted
from hardpack.table.log_name import Among

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _PerFile:
    """Java methods and values used for every file, looked up once: each step of a name is a call into the JVM."""

    to_json: Any
    from_json: Any
    read_tree: Any
    specs: Any
    scan_task: Any
    no_deletes: Any


class JvmTable(Procedures):
    """One Iceberg table as Spark's catalog loads it.

    Args:
        spark: a classic session whose catalog has the same name as pyiceberg's.
        name: `catalog.namespace.table`.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark, self.name = spark, name
        jvm: Any = spark._jvm
        self._ice = jvm.org.apache.iceberg
        self._list = jvm.java.util.ArrayList
        self._java = self._ice.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, quoted(name))
        self._cache = self._static("org.apache.iceberg.spark.SparkTableCache", "get")
        self._tasks = self._ice.spark.ScanTaskSetManager.get()
        self._specs: dict[int, tuple[Any, str]] = {}
        self._files = self._ice.spark.FileRewriteCoordinator.get()

    def _static(self, cls: str, name: str) -> Any:
        # named by its class, as py4j would look for the instance method of the same name that hides the static one
        return JavaMember(name, None, "z:" + cls, self.spark.sparkContext._gateway._gateway_client)()

    def scan_tasks(self, snapshot: int, among: Among, paths: Collection[str] | None = None) -> ScanTasks:
        """Returns the scan tasks of the files that may hold rows of some logs, by default all that a snapshot has.

        Args:
            snapshot: the snapshot's id.
            among: the columns that name a log, with the values that they have in these logs.
            paths: of the files that are wanted, None for all.
        """
        # Iceberg binds names by an older snapshot's own schema, but for the current snapshot by the table's present one
        is_current = int(self._java.currentSnapshot().snapshotId()) == snapshot
        schema = None if is_current else self._ice.util.SnapshotUtil.schemaFor(self._java, snapshot)
        scan = self._java.newScan().useSnapshot(snapshot).filter(self._in_logs(among, schema))
        return ScanTasks.planned(self.spark._jvm, self._java, scan, paths)

    def tasks_of(self, snapshot: int, paths: Collection[str]) -> ScanTasks:
        """Returns the scan tasks of the given files of a snapshot, of whatever log they are."""
        return ScanTasks.planned(self.spark._jvm, self._java, self._java.newScan().useSnapshot(snapshot), paths)

    def _in_logs(self, among: Among, schema: Any = None) -> Any:
        """Returns Iceberg's expression that a row is of one of the logs.

        Args:
            among: the columns that name a log, with the values that they have in these logs.
            schema: the schema by whose names the columns are called; None for the present names.
        """
        of = self._ice.expressions.Expressions
        in_any = of.alwaysFalse()
        for one in among:
            alternative = of.alwaysTrue()
            for column, values in one:
                name = column.name if schema is None else schema.findColumnName(column.field_id)
                if name is None:
                    # that schema lacks the column, so a file of its time may be of any log
                    continue
                wanted = self._list()
                for value in values:
                    wanted.add(value)
                alternative = getattr(of, "and")(alternative, getattr(of, "in")(name, wanted))
            in_any = getattr(of, "or")(in_any, alternative)
        return in_any

    def deletes(self, task: Any) -> list[ContentFile]:
        """Returns the delete files that lie on the task's data file."""
        return [ContentFile(self._json(delete)) for delete in self.lying_on(task)]

    def lying_on(self, task: Any) -> list[Any]:
        """Returns the delete files that lie on the task's data file, as the JVM has them."""
        return items(self.spark._jvm, task.deletes())

    def new_deletes(self, before: Any, after: Any) -> list[int]:
        """Returns the file sequence numbers of the delete files that came to lie on a data file between two snapshots.

        Args:
            before: a scan task of a data file.
            after: a task of the same file at a later snapshot.
        """
        lying = self.lying_on(after)
        earlier = [delete.entry for delete in self.deletes(before)] if lying else []
        return [int(delete.fileSequenceNumber()) for delete in lying if self._json(delete) not in earlier]

    def sequence_number(self, snapshot: int) -> int:
        """Returns the sequence number of a snapshot."""
        return int(self._java.snapshot(snapshot).sequenceNumber())

    def has_lineage(self, snapshot: int) -> bool:
        """Returns whether a snapshot's rows have row lineage: those of format v3 do, from its first commit on."""
        return self._java.snapshot(snapshot).firstRowId() is not None

    def removed_files(self, snapshot: int) -> set[str]:
        """Returns the paths of the data files that the commit of a snapshot removed."""
        removed = self._java.snapshot(snapshot).removedDataFiles(self._java.io())
        return {str(file.location()) for file in items(self.spark._jvm, removed)}

    def delete_manifests(self, snapshot: int) -> int:
        """Returns how many manifests of delete files a snapshot has."""
        return int(self._java.snapshot(snapshot).deleteManifests(self._java.io()).size())

    def _json(self, file: Any) -> dict[str, Any]:
        return dict(json.loads(self._jvm.to_json(file, self._spec(file.specId())[0])))

    def _spec(self, number: int) -> tuple[Any, str]:
        """Returns a partition spec and its JSON."""
        if number not in self._specs:
            spec = self._java.specs().get(number)
            self._specs[number] = spec, self._ice.PartitionSpecParser.toJson(spec)
        return self._specs[number]

    @cached_property
    def _jvm(self) -> _PerFile:
        return _PerFile(
            to_json=self._ice.ContentFileParser.toJson,
            from_json=self._ice.ContentFileParser.fromJson,
            read_tree=self._ice.util.JsonUtil.mapper().readTree,
            specs=self._java.specs(),
            scan_task=self._ice.BaseFileScanTask,
            no_deletes=self.spark.sparkContext._gateway.new_array(self._ice.DeleteFile, 0),
        )

    def java_file(self, file: ContentFile) -> Any:
        """Returns a data or delete file as the JVM has it."""
        return self._jvm.from_json(self._jvm.read_tree(json.dumps(file.entry)), self._jvm.specs)

    def _task_of(self, file: Any, deletes: Sequence[Any]) -> Any:
        array = self._jvm.no_deletes
        if deletes:
            array = self.spark.sparkContext._gateway.new_array(self._ice.DeleteFile, len(deletes))
            for at, delete in enumerate(deletes):
                array[at] = delete
        return self._jvm.scan_task(file, array, self._schema, self._spec(file.specId())[1], self._whole)

    @cached_property
    def _schema(self) -> Any:
        """The table's schema as JSON, the same for every task."""
        return self._ice.SchemaParser.toJson(self._java.schema())

    @cached_property
    def _whole(self) -> Any:
        """The residual of a scan without a filter: nothing is left to be evaluated on the rows."""
        return self._ice.expressions.ResidualEvaluator.unpartitioned(self._ice.expressions.Expressions.alwaysTrue())

    def new_tasks(self, files: Iterable[tuple[ContentFile, Any, Sequence[Any]]]) -> ScanTasks:
        """Returns scan tasks of data files, none of which needs to be committed.

        Args:
            files: each file, the same as the JVM has it, and the delete files on it as the JVM has them.
        """
        tasks = ((file, self._task_of(java, deletes)) for file, java, deletes in files)
        return ScanTasks.made(self.spark._jvm, tasks)

    @contextmanager
    def staged(self, tasks: ScanTasks) -> Iterator[str]:
        """Stages scan tasks under a group id, which `read` takes, and forgets them at the end."""
        group = str(uuid.uuid4())
        self._cache.add(group, self._java)
        self._tasks.stageTasks(self._java, group, tasks.in_java(self.spark._jvm))
        try:
            yield group
        finally:
            self._cache.remove(group)
            self._tasks.removeTasks(self._java, group)
            self._files.clearRewrite(self._java, group)

    def read(self, group: str) -> DataFrame:
        """Returns the rows of the staged tasks, on format v3 with the two lineage columns."""
        # Iceberg for Spark 3.5 and 4.0 takes the group id from the option, for 4.1 from the name alone
        return self.spark.read.format("iceberg").option("scan-task-set-id", group).load(group)

    def commit(self, base: int, change: CommitChange) -> SnapshotRef:
        """Publishes a change as one metadata swap; see `hardpack.spark.commit.Commits.commit`."""
        return self._commits.commit(base, change)

    def alter(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]) -> None:
        """Sets and removes properties as one compare-and-set; see `hardpack.spark.commit.Commits.alter`."""
        self._commits.alter(change)

    @cached_property
    def _commits(self) -> Commits:
        return Commits(self.spark._jvm, self._java, self.name, self._in_logs)
