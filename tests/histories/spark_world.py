"""The second level: the same steps on real tables through real Spark, judged by the same oracle.

Rows have their names in a column. What others do is done by Spark's SQL and Iceberg's procedures, appends by pyiceberg.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hardpack.rules.model import SnapshotRef
from hardpack.spark.commit import CommitChange
from hardpack.spark.jvm_table import JvmTable
from hardpack.table.catalog import open_table
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tests.histories.drain import drain
from tests.histories.foreign import FOREIGN, tied
from tests.histories.generator import Maker
from tests.histories.hp import Telling
from tests.histories.ice import ON_READ, SCHEMA, SPEC, Row
from tests.histories.jvm_table import Landed
from tests.histories.rules import left_storage
from tests.histories.steps import Step
from tests.histories.world import World

NAMED = Schema(*SCHEMA.fields, NestedField(7, "rid", LongType()))
KINDS = {
    "append", "advance", "scheduled", "late", "redeliver", "remake", "binpack", "update", "delete", "insert_overwrite",
    "truncate", "rollback", "set_snapshot", "cherry_pick", "foreign_expire", "rewrite_manifests", "clean", "plan",
    "apply", "expire_tombstones", "retention", "verify", "pause", "resume", "settings", "respec", "ambush",
}  # fmt: skip
"""Steps that this level knows."""


class RealHardpack(Telling):
    """The library over real tables, its clock the world's."""

    def __init__(self, world: Any, catalog: Catalog, spark: Any, home: Any) -> None:
        super().__init__(catalog, spark, home)
        self.world = world
        self.clock = lambda: world.now


class SparkTab:
    """A real table, with what steps and oracle ask of one in memory."""

    by_log = True
    """At this level a partition always keeps logs apart."""

    def __init__(self, world: Any, name: str, on_read: bool) -> None:
        self.world, self.name, self.sql_name = world, name, f"`{world.catalog.name}`.{name}"
        self.sizes: dict[str, int] = {}
        self.on_read = on_read
        """Whether passes may hide rows in the place of writing files anew."""

    @property
    def table(self) -> Any:
        return open_table(self.world.catalog, self.name)

    @property
    def place(self) -> str:
        """Where the current metadata lies."""
        found: str = self.table.metadata_location
        return found

    @property
    def meta(self) -> Any:
        return self.table.metadata

    @property
    def current(self) -> Snapshot | None:
        return self.meta.current_snapshot()

    @property
    def adopted(self) -> bool:
        return True

    def sql(self, text: str) -> list[Any]:
        return self.world.spark.sql(text.replace("TABLE_", self.sql_name)).collect()

    def call(self, procedure: str, arguments: str = "") -> None:
        catalog = self.world.catalog.name
        more = f", {arguments}" if arguments else ""
        self.world.spark.sql(f"CALL `{catalog}`.system.{procedure}(table => '{self.name}'{more})").collect()

    def visible(self, snapshot: Snapshot | None) -> dict[str, list[Row]]:
        if snapshot is None:
            return {}
        table = self.table
        scan = table.scan(snapshot_id=snapshot.snapshot_id)
        found = {}
        for task in sorted(scan.plan_files(), key=lambda t: t.file.file_path):
            self.sizes[task.file.file_path] = task.file.file_size_in_bytes
            rows = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue()).to_table([task])
            found[task.file.file_path] = [_row(r, scan.projection()) for r in rows.to_pylist()]
        return found

    def stored(self, snapshot: int) -> list[Row]:
        """All rows that lie in the data files of a snapshot, whatever hides them."""
        files = {task.file.file_path for task in self.table.scan(snapshot_id=snapshot).plan_files()}
        parts = [pq.read_table(path.removeprefix("file://").removeprefix("file:")) for path in sorted(files)]
        return [_row(row, NAMED) for part in parts for row in part.to_pylist()]

    def paths(self, snapshot: Snapshot | None) -> list[str]:
        return list(self.visible(snapshot))

    def size(self, path: str) -> int:
        return self.sizes[path]

    def bounded(self, path: str) -> bool:
        return True

    def logs(self, path: str) -> set[int]:
        """One log, as all files of this level hold."""
        return {0}

    def took_mixed(self, snapshot: Snapshot) -> bool:
        return False

    def kept(self) -> dict[str, tuple[int, set[int]]]:
        return {}

    def file(self, rows: Any, clock: int, bounded: bool = True) -> list[Row]:
        return list(rows)

    def commit(self, clock: int, operation: str, add: list[list[Row]]) -> None:
        """Append by pyiceberg: one commit, a file per log."""
        rows, table = sorted(r for found in add for r in found), self.table
        columns = {
            1: [r.log for r in rows], 2: [r.offset for r in rows],
            3: [None if r.ts is None else r.ts * 1000 for r in rows],
            4: [None if r.key is None else r.key.encode() for r in rows], 5: [r.value for r in rows],
            6: [r.ingested for r in rows], 7: [r.rid for r in rows],
        }  # fmt: skip
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        arrays = [pa.array(columns[f.field_id], schema.field(f.name).type) for f in table.schema().fields]
        table.append(pa.Table.from_arrays(arrays, schema=schema))

    def set_properties(self, wanted: dict[str, str | None]) -> None:
        kept = {k: v for k, v in wanted.items() if v is not None}
        gone = [k for k, v in wanted.items() if v is None]
        if kept:
            pairs = ", ".join(f"'{k}' = '{v}'" for k, v in kept.items())
            self.sql(f"ALTER TABLE TABLE_ SET TBLPROPERTIES ({pairs})")
        if gone:
            names = ", ".join(f"'{k}'" for k in gone)
            self.sql(f"ALTER TABLE TABLE_ UNSET TBLPROPERTIES ({names})")


def _row(cells: dict[str, Any], schema: Schema) -> Row:
    of = {f.field_id: cells[f.name] for f in schema.fields}
    stamp = None if of[3] is None else round(of[3].timestamp() * 1000)
    return Row(of[7], of[1], of[2], stamp, None if of[4] is None else of[4].decode(), of[5], of[6])


class SparkWorld(World):
    """Real tables and all that happens to them."""

    def __init__(self, catalog: Catalog, spark: Any, home: Any) -> None:
        super().__init__()
        self.catalog, self.spark, self.home = catalog, spark, home
        self.lake = SimpleNamespace(
            tabs={}, load_table=catalog.load_table, name=catalog.name, properties=catalog.properties
        )
        self.clock = time.time_ns() // 1_000_000
        self.foreign = {k: f for k, f in FOREIGN.items() if k in ("append", "late", "redeliver", "remake")} | SQL
        # rows of several worlds lie in one catalog
        self.store.number = 1_000
        self.hp = self.cold()

    def cold(self) -> Any:
        return RealHardpack(self, self.catalog, self.spark, self.home)

    def made(
        self, name: str, version: int, properties: Mapping[str, str], by_log: bool = True, mute: bool = False
    ) -> SparkTab:
        # Spark puts rows of several logs into a file where no partition keeps them apart
        self.catalog.create_namespace_if_not_exists("t")
        with contextlib.suppress(Exception):
            self.catalog.drop_table(name)
        fixed = {"hardpack.orphan.age.ms": "31536000000", "format-version": "2", "hardpack.maintenance": "off"}
        self.catalog.create_table(name, NAMED, partition_spec=SPEC, properties={**properties, **fixed})
        return SparkTab(self, name, "write.delete.mode" in properties)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """While this holds, each commit of hardpack's is seen, and others may come before it."""
        real = JvmTable.commit

        def commit(jvm: JvmTable, base: int, change: CommitChange) -> SnapshotRef:
            self.meanwhile()
            made = real(jvm, base, change)
            name, summary = jvm.name.partition(".")[2], dict(change.summary)
            parent = self.lake.tabs[name].meta.snapshot_by_id(made.id).parent_snapshot_id
            phase = summary.get("hardpack.plan", "").partition(":")[0]
            if {"hardpack.pass", "hardpack.portion"} & summary.keys():
                self.landed.append(Landed(name, made.id, parent, base, phase, self.now, summary, self.settings))
            self.look(name)
            if phase == "two":
                left_storage(self.oracles[name], parent, made.id, self.lake.tabs[name].stored(made.id))
            return made

        # every table that hardpack opens by itself has to tell of its commits, until the world is over
        JvmTable.commit = commit  # type: ignore[method-assign]
        try:
            yield
        finally:
            # as mypy takes methods for constants
            JvmTable.commit = real  # type: ignore[method-assign]


def _where(key: str | None, log: int | None = None) -> str:
    keyed = "true" if key is None else f"key = X'{key.encode().hex()}'"
    return keyed if log is None else f"{keyed} AND partition = {log}"


def binpack(
    world: Any, tab: SparkTab, mode: str, share: int, by_key: bool = False, logs: Any = None, across: bool = False
) -> None:
    if tab.current is None:
        return
    if mode == "overwrite" or by_key:
        # Iceberg's procedure sorts only with Spark extensions, which the session has not
        tab.sql("INSERT OVERWRITE TABLE_ SELECT * FROM TABLE_" + (" ORDER BY key" if by_key else ""))
        return
    options = f"'rewrite-all', 'true', 'use-starting-sequence-number', '{str(mode == 'starting').lower()}'"
    where = "" if share == 100 else ", where => 'partition = 0'"
    tab.call("rewrite_data_files", f"options => map({options}){where}")


def update(
    world: Any, tab: SparkTab, column: str, key: str | None = None, to: Any = None, log: int | None = None
) -> None:
    if column == "ingested":
        tab.sql(f"UPDATE TABLE_ SET ingested = {world.clock} WHERE {_where(key, log)}")
        return
    value = "NULL" if to is None else f"'{to}'" if column == "value" else f"X'{to.encode().hex()}'"
    # rows get another name when they change
    jump = world.store.name() * 1_000_000
    where = f"{_where(key, log)} AND NOT ({column} <=> {value})"
    tab.sql(f"UPDATE TABLE_ SET {column} = {value}, rid = rid + {jump} WHERE {where}")


def delete(world: Any, tab: SparkTab, key: str | None, log: int | None = None, percent: int = 100,
           on_read: bool = False) -> None:  # fmt: skip
    at = {row.log: world.ends.get((tab.name, row.log), 3) * percent // 100 for row in world.written[tab.name]}
    upto = " OR ".join(f"(partition = {name} AND `offset` <= {end})" for name, end in at.items()) or "false"
    tab.set_properties({"write.delete.mode": ON_READ if on_read else "copy-on-write"})
    tab.sql(f"DELETE FROM TABLE_ WHERE {_where(key, log)} AND ({upto})")
    tab.set_properties({"write.delete.mode": ON_READ if tab.on_read else None})


def insert_overwrite(world: Any, tab: SparkTab, log: int | None, rows: Any, from_start: bool = True) -> None:
    if tab.current is None:
        return
    logs = sorted({r.log for found in tab.visible(tab.current).values() for r in found}) if log is None else [log]
    values = []
    for name in logs:
        if from_start:
            world.ends[tab.name, name] = 3
            world.written[tab.name] = [r for r in world.written[tab.name] if r.log != name]
        for key, kind, gap, _ in rows:
            world.ends[tab.name, name] = world.ends.get((tab.name, name), 3) + gap
            rid = world.store.name()
            keyed = "NULL" if key is None else f"X'{key.encode().hex()}'"
            value = "CAST(NULL AS STRING)" if kind == "tombstone" else f"'v{rid}'"
            stamp = f"timestamp_millis({world.clock})"
            values.append(f"({name}, {world.ends[tab.name, name]}L, {stamp}, {keyed}, {value}, {world.clock}L, {rid}L)")
    from pyspark.sql import functions as F

    if values:
        frame = world.spark.sql(f"SELECT * FROM VALUES {', '.join(values)}")
        names = [f.name for f in tab.table.schema().fields]
        frame.toDF(*names).writeTo(tab.sql_name).overwrite(F.expr("true" if log is None else f"partition = {log}"))


def truncate(world: Any, tab: SparkTab) -> None:
    tab.sql("TRUNCATE TABLE TABLE_")


def rollback(world: Any, tab: SparkTab, back: int) -> None:
    line = [s for s in world.oracles[tab.name].ancestors(tab.meta.current_snapshot_id) if tab.meta.snapshot_by_id(s)]
    if len(line) > 1:
        tab.call("set_current_snapshot", f"snapshot_id => {line[min(back, len(line) - 1)]}")


def set_snapshot(world: Any, tab: SparkTab, pick: int) -> None:
    known = tab.meta.snapshots
    if known and tied(tab.meta, target := known[pick % len(known)].snapshot_id):
        tab.call("set_current_snapshot", f"snapshot_id => {target}")


def cherry_pick(world: Any, tab: SparkTab, pick: int) -> None:
    meta = tab.meta
    line = set(world.oracles[tab.name].ancestors(meta.current_snapshot_id))
    others = [s for s in meta.snapshots if s.snapshot_id not in line and s.summary.operation.value == "append"]
    if others:
        with contextlib.suppress(Exception):
            tab.call("cherrypick_snapshot", f"snapshot_id => {others[pick % len(others)].snapshot_id}")


def foreign_expire(world: Any, tab: SparkTab, keep: int) -> None:
    tab.call("expire_snapshots", f"older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => {keep}")


def rewrite_manifests(world: Any, tab: SparkTab) -> None:
    if tab.current:
        tab.call("rewrite_manifests", "use_caching => false")


def respec(world: Any, tab: SparkTab) -> None:
    # by pyiceberg, as Spark's session has no extensions here and needs none
    fields = [f.name for f in tab.meta.spec().fields]
    with tab.table.update_spec() as update:
        if "of_key" in fields:
            update.remove_field("of_key")
        else:
            update.add_field("key", IdentityTransform(), "of_key")


def evolve(world: Any, tab: SparkTab, what: str) -> None:
    if what == "add":
        tab.sql(f"ALTER TABLE TABLE_ ADD COLUMN more{world.store.name()} STRING")


SQL = {f.__name__: f for f in (binpack, update, delete, insert_overwrite, truncate, rollback, set_snapshot, cherry_pick,
                               foreign_expire, rewrite_manifests, respec, evolve)}  # fmt: skip


def short(seed: int, name: str) -> list[Step]:
    """A history for this level: a dozen steps of those it knows, on one table of this name.

    On every second table passes may hide rows.
    """
    made = [s for s in Maker(seed).history() if _known(s)]
    create, rest = made[0], made[1:]
    rng = random.Random(seed)
    at = sorted(rng.sample(range(len(rest)), min(12, len(rest))))
    steps = [create, *(rest[i] for i in at)]
    return [_named(s, name, on_read=bool(seed % 2)) for s in steps]


def _known(step: Step) -> bool:
    if step.kind == "ambush":
        return step.args["step"][0] in KINDS
    return step.kind == "create" or (step.kind in KINDS and step.args.get("bounded", True))


def _named(step: Step, name: str, on_read: bool) -> Step:
    if step.kind == "create":
        # a row that is delivered again has another name
        settings = step.args["settings"] | {"duplicates.ignore": "rid"}
        return Step("create", {**step.args, "t": name, "version": 2, "settings": settings, "on_read": on_read})
    if step.kind == "ambush":
        kind, args = step.args["step"]
        return Step("ambush", {**step.args, "step": [kind, {**args, "t": name}]})
    return Step(step.kind, {**step.args, "t": name}) if "t" in step.args else step


def play_on_spark(steps: list[Step], catalog: Catalog, spark: Any, home: Any) -> SparkWorld:
    """Run a history on real tables and drain it; raises the first violation."""
    world = SparkWorld(catalog, spark, home)
    with world.watched():
        for step in steps:
            world.do(step)
        drain(world)
    return world
