"""The door to Iceberg's JVM API: staged reads and writes of chosen files, and the one commit.

Every Py4J call to Iceberg stands here. The classes behind it are internal to Iceberg's Spark module
(tested with 1.12.0 for Spark 4.1): scans are staged by group id, and reading or writing that id selects them.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaMember, is_instance_of
from py4j.protocol import Py4JJavaError
from tenacity import Retrying, before_sleep_log, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from hardpack import faults
from hardpack.errors import CommitUnknown, Conflict, HardpackError
from hardpack.failures import java_error
from hardpack.lake.files import FileRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

log = logging.getLogger(__name__)

COMMIT_TRIES = 8
VALIDATION = "org.apache.iceberg.exceptions.ValidationException"
UNHEARD = "org.apache.iceberg.jdbc.UncheckedSQLException"
"""Of a statement that failed, or whose answer was lost, so that it may still take effect."""
RETRYABLE = ("org.apache.iceberg.exceptions.CommitFailedException", UNHEARD)


def literal(text: str) -> str:
    """Text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _TryAgain(Exception):
    """The table moved on between reading and committing."""


def _tries() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(_TryAgain),
        stop=stop_after_attempt(COMMIT_TRIES),
        wait=wait_random_exponential(multiplier=0.1, max=5),
        before_sleep=before_sleep_log(log, logging.INFO),
        reraise=True,
    )


@dataclass(frozen=True)
class Change:
    """What one commit does: files out, files in, properties derived from those at the time, summary entries.

    `vectors` are new deletion vectors, `replaced` those that they stand in for, both within `partitions`, the column's
    name and its values. With `rewrites`, and no vectors, the snapshot is a `replace`. `properties` is given the table's
    as they are at the moment of the commit, and id and sequence number of the snapshot to be; it returns those to set
    and raises Conflict when they no longer allow it.
    """

    remove: Iterable[Any]
    add: Iterable[Any]
    properties: Callable[[Mapping[str, str], tuple[int, int]], dict[str, str]]
    summary: dict[str, str]
    vectors: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    partitions: tuple[str, Sequence[int | str]] = ("", ())
    rewrites: bool = False


@dataclass(frozen=True)
class _PerFile:
    """What is called for every file, looked up once: each step of a name is a call into the JVM of its own."""

    to_json: Any
    from_json: Any
    read_tree: Any
    specs: Any
    scan_task: Any
    no_deletes: Any


class IceTable:
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
        self._java = self._ice.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
        self._cache = self._static("org.apache.iceberg.spark.SparkTableCache", "get")
        self._tasks = self._ice.spark.ScanTaskSetManager.get()
        self._specs: dict[int, tuple[Any, str]] = {}
        self._files = self._ice.spark.FileRewriteCoordinator.get()

    def _static(self, cls: str, name: str) -> Any:
        # py4j looks for an instance method when a static one of the same name is hidden by it
        return JavaMember(name, None, "z:" + cls, self.spark.sparkContext._gateway._gateway_client)()

    def call(self, procedure: str, arguments: str) -> list[Row]:
        """Run one of Iceberg's procedures on the table; the arguments are SQL."""
        catalog = self.name.partition(".")[0]
        statement = f"CALL `{catalog}`.system.{procedure}(table => {literal(self.name)}, {arguments})"
        found: list[Row] = self.spark.sql(statement).collect()
        return found

    @cached_property
    def lists(self) -> bool:
        """Whether the table's FileIO can list a folder."""
        gateway: Any = self.spark.sparkContext._gateway
        return bool(is_instance_of(gateway, self._java.io(), "org.apache.iceberg.io.SupportsPrefixOperations"))

    def listed(self, folder: str) -> dict[str, int]:
        """Files under a folder, as the table's FileIO lists them, and when they were made, ms by the storage's clock.

        Empty when it cannot list or there is no folder.
        """
        if not self.lists:
            return {}
        try:
            found = self._java.io().listPrefix(folder).iterator()
            return {str(file.location()): int(file.createdAtMillis()) for file in found}
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception) or "does not exist" in str(error.java_exception):
                return {}
            raise

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files through the table's FileIO."""
        io = self._java.io()
        for path in paths:
            io.deleteFile(path)

    def scan_tasks(self, snapshot: int, column: str, values: Iterable[int | str]) -> dict[str, Any]:
        """Scan tasks of whole data files by path, of the partitions where the column has one of the values."""
        scan = self._java.newScan().useSnapshot(snapshot).filter(self._among(column, values)).planFiles()
        try:
            return {str(task.file().location()): task for task in scan.iterator()}
        finally:
            scan.close()

    def _among(self, column: str, values: Iterable[int | str]) -> Any:
        wanted = self._list()
        for value in values:
            wanted.add(value)
        return getattr(self._ice.expressions.Expressions, "in")(column, wanted)

    def deletes(self, task: Any) -> list[dict[str, Any]]:
        """Iceberg's JSON of the delete files that lie on the task's file."""
        return [self._json(delete) for delete in self.lying_on(task)]

    def lying_on(self, task: Any) -> list[Any]:
        """Iceberg's delete files that lie on the task's file."""
        found = task.deletes()
        # by number, as an iterator in the JVM ends with an exception, which takes 18 ms to arrive
        return [found.get(at) for at in range(found.size())]

    def delete_manifests(self, snapshot: int) -> int:
        """How many manifests of delete files a snapshot has."""
        return int(self._java.snapshot(snapshot).deleteManifests(self._java.io()).size())

    def _json(self, file: Any) -> dict[str, Any]:
        return dict(json.loads(self._jvm.to_json(file, self._spec(file.specId())[0])))

    def _spec(self, number: int) -> tuple[Any, str]:
        """A partition spec and its JSON."""
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

    def refs(self, tasks: Mapping[str, Any]) -> dict[str, FileRef]:
        """What it takes to read the tasks' files elsewhere, by path."""
        found = {}
        for path, task in tasks.items():
            entry = self._json(file := task.file())
            found[path] = FileRef(entry, int(file.dataSequenceNumber()) if "first-row-id" in entry else 0)
        return found

    def content_file(self, entry: Mapping[str, Any]) -> Any:
        """Iceberg's data or delete file from its JSON."""
        return self._jvm.from_json(self._jvm.read_tree(json.dumps(entry)), self._jvm.specs)

    def task_of(self, file: Any, deletes: Sequence[Any] = ()) -> Any:
        """A scan task of a data file, with deletes that need not be committed, as little as the file."""
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
        """What no filter leaves to be evaluated: nothing."""
        return self._ice.expressions.ResidualEvaluator.unpartitioned(self._ice.expressions.Expressions.alwaysTrue())

    @contextmanager
    def staged(self, tasks: Iterable[Any]) -> Iterator[str]:
        """Stage scan tasks under a group id that `read` and `write` take; forgotten at the end."""
        group, listed = str(uuid.uuid4()), self._list()
        for task in tasks:
            listed.add(task)
        self._cache.add(group, self._java)
        self._tasks.stageTasks(self._java, group, listed)
        try:
            yield group
        finally:
            self._cache.remove(group)
            self._tasks.removeTasks(self._java, group)
            self._files.clearRewrite(self._java, group)

    def read(self, group: str) -> DataFrame:
        """The rows of the staged tasks, on format v3 with the two lineage columns."""
        return self.spark.read.format("iceberg").load(group)

    def commit(self, base: int, change: Change) -> int:
        """Publish a change as one metadata swap, re-applied on the newest snapshot as often as needed.

        Files, properties and summary go into one compare-and-set of the table's metadata. Iceberg's own
        transaction would retry with the property values of the first try and so overwrite a newer state;
        here they are derived anew from the metadata that the swap is against.

        Args:
            base: snapshot that the removed files were read at; later appends are kept.
            change: what to do.

        Returns:
            The new snapshot's id.

        Raises:
            Conflict: an input file was rewritten, deleted from or removed meanwhile, or tries ran out.
            CommitUnknown: the catalog did not say; the added files must stay where they are.
        """
        unheard: list[str] = []
        try:
            return int(_tries()(self._commit_once, base, change, unheard))
        except CommitUnknown:
            raise
        except (Conflict, _TryAgain) as error:
            if unheard:
                raise CommitUnknown(
                    f"{self.name}: the catalog did not say what became of {len(unheard)} of the tries to commit "
                    f"({unheard[-1]}); run the same plan again, it finds out whether one went through."
                ) from error
            if isinstance(error, Conflict):
                raise
            raise Conflict(
                f"{self.name}: other writers changed the table during each of {COMMIT_TRIES} tries to commit "
                f"({error}); run it again, nothing was published."
            ) from None

    def _commit_once(self, base: int, change: Change, unheard: list[str]) -> int:
        try:
            update = self._update(base, change)
            snapshot = update.apply()
            operations = self._java.operations()
            current = operations.current()
            made = int(snapshot.snapshotId()), int(snapshot.sequenceNumber())
            fresh = change.properties(dict(current.properties()), made)
            changed = self._ice.TableMetadata.buildFrom(current).setBranchSnapshot(snapshot, "main")
            changed = changed.setProperties(self._map(fresh)).build()
            faults.reach("before swap")
            operations.commit(current, changed)
            faults.reach("after swap")
            return made[0]
        except HardpackError:
            raise
        except Exception as error:  # pyspark turns some of Java's exceptions into its own
            kind, message = java_error(error)
            if (landed := self._landed(base, change.summary, message)) is not None:
                return landed
            if kind == UNHEARD:
                unheard.append(message)
            if kind in RETRYABLE:
                raise _TryAgain(message) from None
            if kind == VALIDATION:
                raise Conflict(
                    f"{self.name}: an input file changed since snapshot {base} ({message}); plan again, "
                    "nothing was published."
                ) from None
            raise CommitUnknown(
                f"{self.name}: the commit ended with {kind} ({message}); see that the catalog is well and run the same "
                "plan again, it finds out whether it went through."
            ) from error

    def alter(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]) -> None:
        """Set properties as `change` derives them from those there are, None to remove one, as one compare-and-set.

        Raises:
            Conflict: other writers were faster each time; CommitUnknown when nobody knows.
        """
        try:
            _tries()(self._alter_once, change)
        except _TryAgain as error:
            raise Conflict(f"{self.name}: others were faster {COMMIT_TRIES} times ({error}); run it again.") from None

    def _alter_once(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]) -> None:
        self._java.refresh()
        operations = self._java.operations()
        current = operations.current()
        wanted = change(dict(current.properties()))
        gone = self._map({name: "" for name, value in wanted.items() if value is None}).keySet()
        kept = self._map({name: value for name, value in wanted.items() if value is not None})
        changed = self._ice.TableMetadata.buildFrom(current).removeProperties(gone).setProperties(kept).build()
        try:
            operations.commit(current, changed)
        except Exception as error:
            kind, message = java_error(error)
            if kind in RETRYABLE and kind != UNHEARD:
                raise _TryAgain(message) from None
            raise CommitUnknown(f"{self.name}: {kind} ({message}); see what is set, then try again.") from error

    def _landed(self, base: int, summary: Mapping[str, str], failure: str) -> int | None:
        """The snapshot since the base that carries this summary: an earlier try may have gone through unheard."""
        try:
            self._java.refresh()
            snapshot = self._java.currentSnapshot()
            while snapshot is not None and int(snapshot.snapshotId()) != base:
                if dict(snapshot.summary()).items() >= summary.items():
                    return int(snapshot.snapshotId())
                parent = snapshot.parentId()
                snapshot = None if parent is None else self._java.snapshot(parent)
        except Exception as error:
            raise CommitUnknown(
                f"{self.name}: the commit failed ({failure}) and the catalog does not answer "
                f"({java_error(error)[1]}); run the same plan again, it finds out whether it went through."
            ) from None
        return None

    def _update(self, base: int, change: Change) -> Any:
        remove, add = list(change.remove), list(change.add)
        if change.vectors:
            update = self._row_delta(base, change, remove, add)
        elif not remove and not add:
            # a snapshot all the same, so that moving the state alone is compared and set too; streams pass over it
            update = self._java.newFastAppend()
        else:
            update = self._java.newRewrite() if change.rewrites else self._java.newOverwrite()
            update.validateFromSnapshot(base)
            for file in remove:
                update.deleteFile(file)
            for file in add:
                update.addFile(file)
            if not change.rewrites:
                # else a concurrent rewrite of an input file would be overwritten silently; `replace` looks anyway
                update.validateNoConflictingDeletes()
        for key, value in change.summary.items():
            update.set(key, value)
        return update

    def _row_delta(self, base: int, change: Change, remove: list[Any], add: list[Any]) -> Any:
        update = self._java.newRowDelta()
        referenced = self._list()
        for file in remove:
            update.removeRows(file)
        for file in add:
            update.addRows(file)
        for delete in change.replaced:
            update.removeDeletes(delete)
        for delete in change.vectors:
            update.addDeletes(delete)
            referenced.add(delete.referencedDataFile())
        update.validateFromSnapshot(base).conflictDetectionFilter(self._among(*change.partitions))
        return update.validateDataFilesExist(referenced).validateDeletedFiles().validateNoConflictingDeleteFiles()

    def _map(self, entries: Mapping[str, str]) -> Any:
        out = self.spark._jvm.java.util.HashMap()
        for key, value in entries.items():
            out.put(key, value)
        return out
