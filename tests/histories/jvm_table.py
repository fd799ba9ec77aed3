"""The stand-in for a table by Iceberg's JVM API: same methods, what Iceberg does on a commit, nothing of the JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hardpack.errors import CommitUnknown, Conflict
from hardpack.files.content_file import ContentFile, listed_file
from hardpack.rules.model import SnapshotRef
from hardpack.spark.commit import TableAtCommit
from hardpack.table.log_name import Among
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Snapshot

from tests.histories.expiry import expire, orphans
from tests.histories.ice import Tab
from tests.histories.rules import left_storage

TRIES = 8
DAY = 86_400_000


@dataclass(frozen=True)
class Landed:
    """A commit of hardpack's, for the oracle."""

    table: str
    snapshot: int
    parent: int | None
    base: int
    phase: str
    clock: int
    summary: Mapping[str, str]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Deletes:
    """A delete file that lies on a data file, with the positions that it names there."""

    path: str
    positions: frozenset[int]
    on_one_file: bool


@dataclass(frozen=True)
class Task:
    """A scan task of one data file."""

    path: str
    deletes: tuple[Deletes, ...] = ()

    def file(self) -> str:
        return self.path


class Tasks(dict[str, Task]):
    """Scan tasks by the path of their data file."""

    def __init__(self, tab: Tab, tasks: Iterable[Task]) -> None:
        super().__init__((task.path, task) for task in tasks)
        self._tab = tab

    def data_files(self, data_sequence_numbers: Mapping[str, int]) -> dict[str, ContentFile]:
        tab, spec = self._tab, self._tab.meta.default_spec_id
        files = tab.store.files
        return {p: listed_file(p, "parquet", spec, [files[p][0].log], tab.size(p), len(files[p])) for p in self}


class SimJvmTable:
    """One table as hardpack's passes and maintenance take it."""

    lists = False

    def __init__(self, world: Any, name: str) -> None:
        self.world, self.name, self.table = world, f"lake.{name}", name
        self.uuid = self.tab.meta.table_uuid
        self.spark = self
        """Leads those who would ask Spark for the table's rows here."""

    @property
    def tab(self) -> Tab:
        return self.world.lake.tabs[self.table]

    def scan_tasks(self, snapshot: int, among: Among, paths: Collection[str] | None = None) -> Tasks:
        found = self.tab.meta.snapshot_by_id(snapshot)
        if found is None:
            raise Conflict(f"{self.name}: snapshot {snapshot} is gone.")
        wanted = {int(value) for one in among for _, values in one for value in values}
        rows, on = self.tab.store.files, dict[str, list[Deletes]]()
        for path in self.tab.deletes(found):
            named = self.tab.store.positions[path]
            for data, positions in named.items():
                on.setdefault(data, []).append(Deletes(path, positions, len(named) == 1))
        of_logs = (p for p in self.tab.paths(found) if wanted & {r.log for r in rows[p]})
        return Tasks(self.tab, (Task(p, tuple(on.get(p, ()))) for p in of_logs if paths is None or p in paths))

    def new_tasks(self, files: Iterable[tuple[ContentFile, Any, Sequence[Any]]]) -> Tasks:
        return Tasks(self.tab, (Task(file.file_path) for _, file, _ in files))

    def deletes(self, task: Task) -> list[Deletes]:
        return list(task.deletes)

    def lying_on(self, task: Task) -> list[str]:
        return [one.path for one in task.deletes]

    def commit(self, base: int, change: Any) -> SnapshotRef:
        """As Iceberg: applied to the newest snapshot until a swap succeeds, refused where an input has changed."""
        for _ in range(TRIES):
            self.world.meanwhile()
            tab = self.tab
            if tab.meta.table_uuid != self.uuid:
                raise CommitUnknown(f"{self.name}: another table has this name now.")
            remove, add, vectors = [str(f) for f in change.remove], list(change.add), list(change.delete_files)
            hides = {data for vector in vectors for data in tab.store.positions[vector.file_path]}
            self._validate(base, {*remove, *hides})
            operation = _operation(change, remove, add)
            gone = [*remove, *map(str, change.replaced)]
            self.world.counts["files under deletes"] += len(vectors)
            made = tab.build(self.world.clock, operation, add=add, remove=gone, deletes=vectors, extra=change.summary)
            meta = tab.meta
            properties = self._properties(change, meta, made)
            self.world.meanwhile()
            if self.tab.meta is not meta:
                continue
            parent = tab.current
            tab.publish(made, properties)
            phase = change.summary.get("hardpack.plan", "").partition(":")[0]
            if {"hardpack.pass", "hardpack.portion"} & change.summary.keys():
                self.world.landed.append(
                    Landed(self.table, made.snapshot_id, parent.snapshot_id if parent else None, base, phase,
                           self.world.now, dict(change.summary), self.world.settings)
                )  # fmt: skip
            self.world.look(self.table)
            if phase == "two" and parent:
                left_storage(self.world.oracles[self.table], parent.snapshot_id, made.snapshot_id, tab.stored(made))
            return SnapshotRef(made.snapshot_id, made.sequence_number or 0)
        raise Conflict(f"{self.name}: others were faster {TRIES} times.")

    def _properties(self, change: Any, meta: Any, made: Snapshot) -> dict[str, str]:
        """The one place where a change is asked for the properties it sets."""
        known, at, ancestors = {s.snapshot_id: s for s in meta.snapshots}, meta.current_snapshot_id, set()
        while at in known:
            ancestors.add(at)
            at = known[at].parent_snapshot_id
        # the newest that has expired is known as the parent of the oldest that is there
        ancestors.add(at)
        ref = SnapshotRef(made.snapshot_id, made.sequence_number or 0)
        at_commit = TableAtCommit(dict(meta.properties), ref, ancestors)
        return dict(change.properties(at_commit))

    def _validate(self, base: int, remove: set[str]) -> None:
        """What Iceberg's overwrite and rewrite check, and a fast append does not."""
        tab = self.tab
        if not remove:
            return
        known = {s.snapshot_id: s for s in tab.meta.snapshots}
        at, since = tab.current, []
        while at is not None and at.snapshot_id != base:
            since.append(at)
            at = known.get(at.parent_snapshot_id or 0)
        if at is None:
            raise Conflict(f"{self.name}: cannot determine history between starting snapshot {base} and the current.")
        if gone := remove - set(tab.paths(tab.current)):
            raise Conflict(f"{self.name}: {len(gone)} input files are missing.")
        hidden, before = tab.hidden(tab.current), tab.hidden(at)
        if any(hidden.get(p, ()) != before.get(p, ()) for p in remove):
            raise Conflict(f"{self.name}: new deletes lie on an input file.")

    def alter(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]) -> None:
        for _ in range(TRIES):
            try:
                self.tab.set_properties(change(dict(self.tab.meta.properties)))
                return
            except CommitFailedException:
                continue
        raise Conflict(f"{self.name}: others were faster.")

    def rewrite_manifests(self) -> int:
        before = len(self.tab.store.lists[self.tab.current.manifest_list])
        self.tab.commit(self.world.clock, "replace", merge=True)
        return before

    def orphans(self, folder: str, older_than: str, dry_run: bool) -> list[str]:
        # the storage dates files by its own clock, and Iceberg takes none that is younger than a day
        return orphans(self.tab, min(_timestamp(older_than), self.world.clock - DAY))

    def expire_snapshots(self, before: int, least: int, may_go: Callable[[str], bool]) -> tuple[int, int]:
        return expire(self.tab, before, least), 0

    def sequence_number(self, snapshot: int) -> int:
        found = self.tab.meta.snapshot_by_id(snapshot)
        return found.sequence_number if found else 0

    def delete_manifests(self, snapshot: int) -> int:
        return len(self.tab.hidden(self.tab.meta.snapshot_by_id(snapshot)))

    def listed(self, folder: str) -> dict[str, int]:
        return {}

    def delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.tab.store.delete(path)


def _operation(change: Any, remove: list[str], add: list[Any]) -> str:
    if change.delete_files:
        return "overwrite" if add else "delete"
    if not remove and not add:
        return "append"
    if change.rewrites:
        return "replace"
    return "overwrite" if remove and add else "delete" if remove else "append"


def _timestamp(literal: str) -> int:
    text = re.search(r"TIMESTAMP '([^']+) UTC'", literal)[1]
    whole = datetime.fromisoformat(text + "+00:00")
    return round(whole.timestamp() * 1000)
