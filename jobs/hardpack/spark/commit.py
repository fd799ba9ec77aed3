"""The commit: files, deletes, properties and summary of a pass as one compare-and-set of the table's metadata."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenacity import (
    Retrying,
    before_sleep_log,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from hardpack import faults
from hardpack.errors import CommitUnknown, Conflict, HardpackError
from hardpack.failures import java_error
from hardpack.rules.model import SnapshotRef
from hardpack.spark.java_values import items, strings
from hardpack.table.history import carried
from hardpack.table.log_name import Among
from hardpack.table.numeric_properties import whole_number

log = logging.getLogger(__name__)

COMMIT_TRIES = 8
MANIFEST = re.compile(r"(.*/[0-9a-f-]{36}-m)(\d+)(\.avro)")
"""Where an update of Iceberg writes a manifest: its UUID, then a number."""
VALIDATION = "org.apache.iceberg.exceptions.ValidationException"
UNHEARD = "org.apache.iceberg.jdbc.UncheckedSQLException"
"""Error class of a catalog's SQL statement that failed, or whose answer was lost, so that it may still take effect."""
RETRYABLE = ("org.apache.iceberg.exceptions.CommitFailedException", UNHEARD)


class _TryAgain(Exception):
    """The table moved on between reading and committing."""


def commit_tries(table: str, properties: Mapping[str, str]) -> Retrying:
    """Returns how a commit is tried again, as a table's `commit.retry.*` say; by default eight tries in all.

    Args:
        table: its name, for the message.
        properties: the table's.

    Raises:
        BadInput: one of these properties is no whole number.
    """
    defaults = {"num-retries": COMMIT_TRIES - 1, "min-wait-ms": 100, "max-wait-ms": 5000, "total-timeout-ms": 1_800_000}
    again, least, most, longest = (
        whole_number(table, properties, f"commit.retry.{key}", default) for key, default in defaults.items()
    )
    return Retrying(
        retry=retry_if_exception_type(_TryAgain),
        stop=stop_after_attempt(again + 1) | stop_after_delay(longest / 1000),
        wait=wait_random_exponential(multiplier=least / 1000, max=most / 1000),
        before_sleep=before_sleep_log(log, logging.INFO),
        reraise=True,
    )


@dataclass(frozen=True)
class TableAtCommit:
    """The state of the table that one try to commit is compared and set against.

    `properties` are the table's, and `made` is the snapshot that the try adds. `ancestors` are the ids of the current
    snapshot and of those before it, down to the newest one that has expired.
    """

    properties: Mapping[str, str]
    made: SnapshotRef
    ancestors: Container[int | None]


@dataclass(frozen=True)
class _Ancestors:
    """The ids of a table's current snapshot and its ancestors; each look-up asks Iceberg about one id."""

    table: Any
    util: Any
    """Iceberg's SnapshotUtil."""

    def __contains__(self, snapshot: object) -> bool:
        current = self.table.currentSnapshot()
        if current is None:
            return False
        now = current.snapshotId()
        # the parent of the oldest snapshot that is there has expired, but is an ancestor all the same
        is_ancestor = self.util.isAncestorOf(self.table, now, snapshot)
        return bool(is_ancestor or self.util.isParentAncestorOf(self.table, now, snapshot))


@dataclass(frozen=True)
class CommitChange:
    """What one commit changes: files to remove, files to add, table properties and summary entries.

    `delete_files` are new deletion vectors or position deletes, and `replaced` the delete files that they replace. Both
    lie on files of the logs `among`. With `rewrites`, and without delete files, the snapshot's operation is `replace`.
    `properties` is called with the table's state at the moment of the commit. It returns the properties to set, and
    raises Conflict when that state no longer allows the commit.
    """

    remove: Iterable[Any]
    add: Iterable[Any]
    properties: Callable[[TableAtCommit], dict[str, str]]
    summary: dict[str, str]
    delete_files: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    among: Among = field(default_factory=list)
    rewrites: bool = False


@dataclass
class _Trial:
    """A commit that is being tried: one update of Iceberg's, which remembers between tries what it has filtered."""

    base: int
    change: CommitChange
    update: Any = None
    tries: int = 0
    made: list[Any] = field(default_factory=list)
    """The snapshots that the tries have made so far."""
    unheard: list[str] = field(default_factory=list)
    """The error messages of tries of which nobody knows whether they went through."""


def _numbered_below(manifests: Iterable[str]) -> set[str]:
    """Returns the manifests that Iceberg wrote for the same update before the given ones.

    An update numbers its manifests (`SnapshotProducer.newManifestOutputFile`). It first writes those without the
    removed files, and may then merge them; no snapshot names the ones that were merged. Iceberg deletes them where it
    commits itself.
    """
    numbered = [match for path in manifests if (match := MANIFEST.fullmatch(path))]
    last = max(numbered, key=lambda match: int(match[2]), default=None)
    return {f"{last[1]}{number}{last[3]}" for number in range(int(last[2]))} if last else set()


class Commits:
    """Commits to one Iceberg table.

    Args:
        jvm: Spark's gateway to the JVM.
        table: Iceberg's table there.
        name: `catalog.namespace.table`.
        in_logs: makes Iceberg's expression that a row is of some logs.
    """

    def __init__(self, jvm: Any, table: Any, name: str, in_logs: Callable[[Among], Any]) -> None:
        self._jvm, self._java, self.name, self._in_logs = jvm, table, name, in_logs

    def commit(self, base: int, change: CommitChange) -> SnapshotRef:
        """Publishes a change as one metadata swap, re-applied on the newest snapshot as often as needed.

        Files, properties and summary go into one compare-and-set of the table's metadata. Iceberg's own
        transaction would retry with the property values of the first try and so overwrite a newer state;
        here each try derives them anew from the metadata that its swap is against.

        Args:
            base: snapshot that the removed files were read at; later appends are kept.
            change: what the commit does.

        Returns:
            The new snapshot.

        Raises:
            Conflict: an input file was rewritten, deleted from or removed meanwhile, or tries ran out.
            CommitUnknown: the catalog did not say what became of a try; the added files must stay where they are.
        """
        trial = _Trial(base, change)
        try:
            tries = commit_tries(self.name, strings(self._jvm, self._java.properties()))
            made: SnapshotRef = tries(self._commit_once, trial)
        except CommitUnknown:
            raise
        except (Conflict, _TryAgain) as error:
            if trial.unheard:
                raise CommitUnknown(
                    f"{self.name}: the catalog did not say what became of {len(trial.unheard)} of the tries to commit "
                    f"({trial.unheard[-1]}); run the same plan again, it finds out whether one went through."
                ) from error
            self._clean_up(trial)
            if isinstance(error, Conflict):
                raise
            raise Conflict(
                f"{self.name}: other writers changed the table during each of {trial.tries} tries to commit "
                f"({error}); run it again, what was staged was not published."
            ) from None
        self._clean_up(trial, made.id)
        return made

    def _clean_up(self, trial: _Trial, committed: int | None = None) -> None:
        """Deletes the manifest lists and manifests that tries have written and the committed snapshot does not need.

        Args:
            trial: the tries.
            committed: id of the snapshot that was committed, None when no try went through.
        """
        if not trial.made:
            return
        try:
            io = self._java.io()
            by_list = {s.manifestListLocation(): self._manifests(s, io, own=True) for s in trial.made}
            manifests = {path for paths in by_list.values() for path in paths}
            left = by_list.keys() | manifests | _numbered_below(manifests)
            if committed is not None and len(by_list) == 1:
                # the usual case: with this nothing is left, and the table need not be read again
                (location,) = by_list
                left -= {location, *by_list[location]}
            if committed is not None and left:
                self._java.refresh()
                final = self._java.snapshot(committed)
                left -= {final.manifestListLocation(), *self._manifests(final, io)}
            if left:
                listed = self._jvm.java.util.ArrayList()
                for path in left:
                    listed.add(path)
                self._jvm.org.apache.iceberg.CatalogUtil.deleteFiles(io, listed, "manifest", True)
        except Exception as error:  # what stays is a few kilobytes, and the commit is as it is
            log.warning("what tries to commit left stays behind: %s", type(error).__name__)

    def _manifests(self, snapshot: Any, io: Any, own: bool = False) -> list[str]:
        """Returns the paths of a snapshot's manifests: all, or its own, which its commit has written."""
        made, manifests = int(snapshot.snapshotId()), items(self._jvm, snapshot.allManifests(io))
        return [m.path() for m in manifests if not own or int(m.snapshotId()) == made]

    def _commit_once(self, trial: _Trial) -> SnapshotRef:
        base, change = trial.base, trial.change
        trial.tries += 1
        try:
            self._java.refresh()
            ancestors = _Ancestors(self._java, self._jvm.org.apache.iceberg.util.SnapshotUtil)
            if trial.update is None:
                trial.update = self._update(base, change)
            for name, value in carried(self._current_summary()).items():
                trial.update.set(name, value)
            snapshot = trial.update.apply()
            trial.made.append(snapshot)
            operations = self._java.operations()
            current = operations.current()
            made = SnapshotRef(int(snapshot.snapshotId()), int(snapshot.sequenceNumber()))
            fresh = change.properties(TableAtCommit(strings(self._jvm, current.properties()), made, ancestors))
            changed = self._jvm.org.apache.iceberg.TableMetadata.buildFrom(current).setBranchSnapshot(snapshot, "main")
            changed = changed.setProperties(self._map(fresh)).build()
            faults.reach("before swap")
            operations.commit(current, changed)
            faults.reach("after swap")
            return made
        except HardpackError:
            raise
        except Exception as error:  # pyspark turns some of Java's exceptions into its own
            kind, message = java_error(error)
            if (landed := self._landed(base, change.summary, message)) is not None:
                return landed
            if kind == UNHEARD:
                trial.unheard.append(message)
            if kind in RETRYABLE:
                raise _TryAgain(message) from None
            if kind == VALIDATION:
                raise Conflict(
                    f"{self.name}: an input file changed since snapshot {base} ({message}); plan again, "
                    "what was staged was not published."
                ) from None
            if not trial.made:
                raise Conflict(
                    f"{self.name}: what was made from snapshot {base} does not fit the table any more ({message}); "
                    "plan again, what was staged was not published."
                ) from None
            raise CommitUnknown(
                f"{self.name}: the commit ended with {kind} ({message}); see that the catalog is well and run the same "
                "plan again, it finds out whether it went through."
            ) from error

    def _current_summary(self) -> dict[str, str]:
        """Returns what the current snapshot's summary says."""
        current = self._java.currentSnapshot()
        return {} if current is None else strings(self._jvm, current.summary())

    def alter(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]) -> None:
        """Sets properties of the table as one compare-and-set.

        Args:
            change: derives the properties to set from the table's current ones; None as a value removes a property.

        Raises:
            Conflict: other writers were faster each time.
            CommitUnknown: nobody knows whether the change went through.
        """
        tries = commit_tries(self.name, strings(self._jvm, self._java.properties()))
        try:
            tries(self._alter_once, change)
        except _TryAgain as error:
            tried = tries.statistics["attempt_number"]
            raise Conflict(f"{self.name}: others were faster {tried} times ({error}); run it again.") from None

    def _alter_once(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]) -> None:
        self._java.refresh()
        operations = self._java.operations()
        current = operations.current()
        wanted = change(strings(self._jvm, current.properties()))
        gone = self._map({name: "" for name, value in wanted.items() if value is None}).keySet()
        to_set = self._map({name: value for name, value in wanted.items() if value is not None})
        changed = (
            self._jvm.org.apache.iceberg.TableMetadata.buildFrom(current)
            .removeProperties(gone)
            .setProperties(to_set)
            .build()
        )
        try:
            operations.commit(current, changed)
        except Exception as error:
            kind, message = java_error(error)
            if kind in RETRYABLE and kind != UNHEARD:
                raise _TryAgain(message) from None
            raise CommitUnknown(f"{self.name}: {kind} ({message}); see what is set, then try again.") from error

    def _landed(self, base: int, summary: Mapping[str, str], failure: str) -> SnapshotRef | None:
        """Returns the snapshot since the base whose summary has these entries, None when there is none.

        An earlier try may have gone through although the catalog's answer was lost.

        Raises:
            CommitUnknown: the catalog does not answer.
        """
        try:
            self._java.refresh()
            snapshot = self._java.currentSnapshot()
            while snapshot is not None and int(snapshot.snapshotId()) != base:
                if strings(self._jvm, snapshot.summary()).items() >= summary.items():
                    return SnapshotRef(int(snapshot.snapshotId()), int(snapshot.sequenceNumber()))
                parent = snapshot.parentId()
                snapshot = None if parent is None else self._java.snapshot(parent)
        except Exception as error:
            raise CommitUnknown(
                f"{self.name}: the commit failed ({failure}) and the catalog does not answer "
                f"({java_error(error)[1]}); run the same plan again, it finds out whether it went through."
            ) from None
        return None

    def _update(self, base: int, change: CommitChange) -> Any:
        remove, add = list(change.remove), list(change.add)
        if change.delete_files:
            update = self._row_delta(base, change, remove, add)
        elif not remove and not add:
            # states that move alone get a snapshot too, so that they are compared and set; streams pass over it
            update = self._java.newFastAppend()
        else:
            update = self._java.newRewrite() if change.rewrites else self._java.newOverwrite()
            update.validateFromSnapshot(base)
            for file in remove:
                update.deleteFile(file)
            for file in add:
                update.addFile(file)
            if not change.rewrites:
                # else a concurrent rewrite of an input file would be overwritten silently; a `replace` looks anyway
                update.validateNoConflictingDeletes()
        for key, value in change.summary.items():
            update.set(key, value)
        return update

    def _row_delta(self, base: int, change: CommitChange, remove: list[Any], add: list[Any]) -> Any:
        update = self._java.newRowDelta()
        referenced = self._jvm.java.util.ArrayList()
        for file in remove:
            update.removeRows(file)
        for file in add:
            update.addRows(file)
        for delete in change.replaced:
            update.removeDeletes(delete)
        for delete in change.delete_files:
            update.addDeletes(delete)
            referenced.add(delete.referencedDataFile())
        update.validateFromSnapshot(base).conflictDetectionFilter(self._in_logs(change.among))
        return update.validateDataFilesExist(referenced).validateDeletedFiles().validateNoConflictingDeleteFiles()

    def _map(self, entries: Mapping[str, str]) -> Any:
        out = self._jvm.java.util.HashMap()
        for key, value in entries.items():
            out.put(key, value)
        return out
