"""The world: tables in memory, a clock, hardpack, and the oracle that looks after every step."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hardpack.errors import BadInput, Conflict, GateRefused, HardpackError
from hardpack.table.catalog import open_table
from hardpack.table.columns import settings_of
from pyiceberg.table.snapshots import Operation, Snapshot

from tests.histories.drain import bad, drain
from tests.histories.engine import simulated
from tests.histories.hp import SimHardpack, home_of
from tests.histories.ice import HIDES, Lake, Row, Store, Tab, unfit
from tests.histories.jvm_table import Landed
from tests.histories.oracle import Oracle, Pass, Rows, Violation, must
from tests.histories.steps import Step
from tests.histories.table_changes import STEPS
from tests.histories.verbs import VERBS, look_in_an_outage

T0 = 1_600_000_000_000
BYTES_A_LOG = 2_000
HARMLESS = {"nightly", "verify", "plan", "foreign_expire", "rewrite_manifests", "binpack", "evolve", "respec", "refer",
            "upgrade", "expire_tombstones"}  # fmt: skip
"""Steps after which nobody may have forgotten anything, nor moved a checkpoint."""


class World:
    """Tables and all that happens to them."""

    foreign = STEPS

    def __init__(self) -> None:
        self.store, self.lake = Store(), Lake()
        self.clock, self.skew = T0, 0
        self.lake.clock = lambda: self.clock
        self.oracles: dict[str, Oracle] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.written: dict[str, list[Row]] = defaultdict(list)
        self.adopted: dict[str, dict[str, str]] = {}
        """The settings that tables were adopted with."""
        self.plans: dict[tuple[str, int], Any] = {}
        self.landed: list[Landed] = []
        self.ambush: list[tuple[int, Step]] = []
        self.planted_refusal = 0
        self.interrupted = self.failed = False
        """Whether somebody came in between during the last verb, and whether it raised."""
        self.went_back: set[str] = set()
        """Tables that somebody took back to an earlier snapshot, to which hardpack has committed nothing since."""
        self.applied: dict[tuple[str, int], int | None] = {}
        """By slot the snapshot that phase one of the kept plan made."""
        self.chain = False
        """Whether the source delivers its last row again with every append."""
        self.idle = False
        """Whether nobody writes any more once the history is over."""
        self.unit_bytes: int | None = None
        """What the policy says of it."""
        self.outage: int | None = None
        """After how many reads the storage answers no more in the next look; None where it does."""
        self.settings, self.known = dict[str, Any](), set[int]()
        self.counts: Counter[str] = Counter()
        self.home = home_of(self)
        self.hp = SimHardpack(self)

    def cold(self) -> SimHardpack:
        """hardpack without anything remembered."""
        return SimHardpack(self)

    @property
    def now(self) -> int:
        """The time as hardpack's machine has it."""
        return self.clock + self.skew

    def create(
        self, name: str, version: int = 2, by_log: bool = True, mute: bool = False, on_read: bool = False
    ) -> None:
        """A new table of this name, in the place of any earlier one, adopted unless it is refused."""
        self.lake.tabs[name] = self.made(name, version, HIDES if on_read else {}, by_log, mute)
        self.oracles[name] = Oracle(by_log)
        if version > 1:
            self.hp.adopt(name, self.adopted[name])
        else:
            with contextlib.suppress(BadInput):
                self.hp.adopt(name, self.adopted[name])
        self.written[name] = []
        for known in [at for at in self.ends if at[0] == name]:
            del self.ends[known]

    def made(
        self, name: str, version: int, properties: Mapping[str, str], by_log: bool = True, mute: bool = False
    ) -> Any:
        """The table itself, with a partition for each log or with none."""
        return Tab(name, self.store, self.clock, version, properties, by_log, mute)

    def using(self, settings: Any, planned: int = 0) -> None:
        """The settings by which a pass works, and the time of its plan."""
        self.settings, self.planned = settings.model_dump(by_alias=True), planned

    def refuse_gate(self) -> int:
        planted, self.planted_refusal = self.planted_refusal, 0
        return planted

    def meanwhile(self) -> None:
        """Called before it reads what it commits to, and before it swaps."""
        if self.ambush:
            at, step = self.ambush[0]
            if at:
                self.ambush[0] = (at - 1, step)
                return
            self.ambush.pop(0)
            self.interrupted = True
            tab = self.lake.tabs[step.args["t"]]
            # what hardpack says of it is asked anew
            self.oracles[tab.name].said = {}
            if step.kind in self.foreign:
                self._foreign(step, tab)
                return
            before, arguments = self.settings, {k: v for k, v in step.args.items() if k != "t"}
            # the other cleaner's errors are its own; its commits are judged like all, by its own table's settings
            with contextlib.suppress(HardpackError):
                self.using(settings_of(open_table(self.lake, tab.name)))
                VERBS[step.kind](self, tab, **arguments)
            self.settings = before

    def last_row(self, tab: Tab, log: int) -> Row | None:
        found = [r for rows in tab.visible(tab.current).values() for r in rows if r.log == log]
        return max(found, key=lambda r: r.offset, default=None)

    def used(self, tab: Tab, log: int) -> set[int]:
        """Offsets that any row of the log ever had."""
        return {r.offset for r in self.written[tab.name] if r.log == log}

    def _foreign(self, step: Step, tab: Tab) -> None:
        arguments = {k: v for k, v in step.args.items() if k != "t"}
        before = tab.current
        if step.kind == "foreign_expire" and tab.name in self.went_back:
            # a limit that docs/limits.md names: nobody would tell any more that a pass was undone
            return
        if step.kind in ("rollback", "set_snapshot", "replace_table"):
            self.went_back.add(tab.name)
        self.foreign[step.kind](self, tab, **arguments)
        if step.kind == "foreign_expire":
            self.look(tab.name)
            self.oracles[tab.name].expired(tab.meta.current_snapshot_id)
        self.look(step.args["t"])
        if tab is self.lake.tabs[step.args["t"]]:
            oracle = self.oracles[tab.name]
            rows = [oracle.rows[s.snapshot_id if s else None] for s in (before, tab.current)]
            if step.kind in ("rollback", "set_snapshot", "cherry_pick") and before is not tab.current:
                self._gone_back(tab, oracle)
                # what has expired meanwhile tells nothing of this line either
                oracle.expired(tab.meta.current_snapshot_id, {s.snapshot_id for s in tab.meta.snapshots})
            as_said(step.kind, *(set(side.shown) for side in rows))

    def _gone_back(self, tab: Tab, oracle: Oracle) -> None:
        """Where a person went back to, only a pass that is left there can tell what was known."""
        known = {s.snapshot_id: s.parent_snapshot_id for s in tab.meta.snapshots}
        at, left = tab.meta.current_snapshot_id, set()
        # behind one that has expired a branch may keep others, but nothing tells that they are of the past
        while at in known:
            left.add(at)
            at = known[at]
        line = oracle.ancestors(tab.meta.current_snapshot_id)
        for log, passes in oracle.passes.items():
            newest = next((s for s in line if s in passes), None)
            # the table's property still tells of the very last pass, until others that came after it are recorded
            if newest not in left and _on_record(tab, log) != newest:
                oracle.forgotten(tab.meta.current_snapshot_id, log, _on_record(tab, log))
                oracle.said.pop(log, None)

    def look(self, name: str) -> None:
        """Show the oracle the snapshots that are new."""
        tab, oracle = self.lake.tabs[name], self.oracles[name]
        mine = {landed.snapshot: landed for landed in self.landed if landed.table == name}
        for snapshot in tab.meta.snapshots:
            if snapshot.snapshot_id not in oracle.rows:
                rows = self._rows(tab, snapshot)
                landed = mine.get(snapshot.snapshot_id)
                if "hardpack.plan" in snapshot.summary.additional_properties:
                    self.went_back.discard(name)
                self.written[name] += [] if landed else [
                    r for r in rows.shown.values() if r.rid not in oracle.rows[snapshot.parent_snapshot_id].shown
                ]  # fmt: skip
                if "hardpack.split" in snapshot.summary.additional_properties:
                    self.counts["split"] += 1
                    same = rows.shown == oracle.rows[snapshot.parent_snapshot_id].shown
                    must(same, "I2", "a split changed rows")
                made = replace(self._pass(landed), read_to=_read_to(tab)) if landed else None
                # of a file with rows of several logs nobody can tell which rows came with it
                replaces = snapshot.summary.operation == Operation.REPLACE and not tab.took_mixed(snapshot)
                oracle.snapshot(snapshot.snapshot_id, snapshot.parent_snapshot_id, rows, made, replaces)

    def _rows(self, tab: Tab, snapshot: Snapshot) -> Rows:
        shown = tab.visible(snapshot)
        of, file, waiting = {}, {}, {}
        for path, rows in shown.items():
            mixed = len(tab.logs(path)) > 1
            for row in rows:
                must(row.rid not in of and row.rid not in waiting, "I2", f"the row at offset {row.offset} stands twice")
                if mixed:
                    waiting[row.rid] = row
                else:
                    of[row.rid], file[row.rid] = row, path
        return Rows(of, file, {p: tab.size(p) for p in shown}, waiting=waiting)

    def _pass(self, landed: Landed) -> Pass:
        if "hardpack.portion" in landed.summary:
            # it moves no checkpoint
            self.counts["portion"] += 1
            return Pass(landed.snapshot, landed.parent, landed.base, landed.phase, landed.clock, landed.settings,
                        {}, max(landed.clock, self.planned), {})  # fmt: skip
        report = json.loads(landed.summary["hardpack.pass"])
        logs = report["logs"]
        reached = {int(entry["partition"]): _reached(entry) for entry in logs}
        copied = {int(entry["partition"]): entry["copied_to"] or 0 for entry in logs}
        self.counts[f"pass {landed.phase}"] += 1
        return Pass(landed.snapshot, landed.parent, landed.base, landed.phase, landed.clock, landed.settings,
                    reached, report["now"], copied)  # fmt: skip

    def _cleaned_now(self) -> set[int]:
        """The logs that phase one of this step cleaned."""
        done = (s.summary["hardpack.pass"] for s in self.landed if s.phase == "one" and "hardpack.pass" in s.summary)
        return {int(entry["partition"]) for text in done for entry in json.loads(text)["logs"]}

    def do(self, step: Step) -> None:
        """One step, and what has to hold after it."""
        self.counts[step.kind] += 1
        if step.kind in ("advance", "skew", "ambush", "create", "outage"):
            self._of_the_world(step)
            return
        name = step.args["t"]
        tab = self.lake.tabs.get(name)
        if tab is None:
            return
        if step.kind in self.foreign:
            self._foreign(step, tab)
        else:
            self._verb(step, tab)
        self._settle(step.kind, name)

    def _of_the_world(self, step: Step) -> None:
        args = step.args
        if step.kind == "advance":
            self.clock += args["ms"]
        elif step.kind == "skew":
            self.skew = args["ms"]
        elif step.kind == "outage":
            self.outage = args["reads"]
        elif step.kind == "ambush":
            self.ambush.append((args["at"], Step(*args["step"])))
        else:
            self.chain, self.unit_bytes = args.get("chain", False), args.get("unit_bytes")
            self.idle = args.get("idle", False)
            self.adopted[args["t"]] = dict(args["settings"])
            flags = (args.get(name, name == "by_log") for name in ("by_log", "mute", "on_read"))
            self.create(args["t"], args.get("version", 2), *flags)
            self._settle("create", args["t"])

    def _verb(self, step: Step, tab: Tab) -> None:
        arguments = {k: v for k, v in step.args.items() if k != "t"}
        self.interrupted = self.failed = False
        self.landed.clear()
        with contextlib.suppress(HardpackError):
            self.using(settings_of(open_table(self.lake, tab.name)))
        try:
            VERBS[step.kind](self, tab, **arguments)
        except Violation:
            raise
        except HardpackError as error:
            self.counts[f"{type(error).__name__} in {step.kind}"] += 1
            self.failed = True
            self.look(tab.name)
            self._may_fail(step.kind, tab, error)
        except Exception as error:
            raise Violation("errors", f"{step.kind} raised {type(error).__name__}: {error}") from error
        finally:
            self.ambush.clear()
            self.planted_refusal = 0
            for name in self.lake.tabs:
                self.look(name)

    def _may_fail(self, kind: str, tab: Tab, error: HardpackError) -> None:
        if isinstance(error, GateRefused):
            must("planted" in str(error), "gate", f"{kind}: the gate refused: {error}")
        elif isinstance(error, Conflict):
            must(self.interrupted or kind == "apply", "conflict", f"{kind} met a conflict with nobody: {error}")
        elif isinstance(error, BadInput):
            rightly = unfit(tab) or self.interrupted or kind in ("settings", "apply", "ahead") or self._all_bad(tab)
            must(rightly, "isolation", f"{kind} was refused as a whole: {error}")
        else:
            raise Violation("errors", f"{kind} raised {type(error).__name__}: {error}")

    def _all_bad(self, tab: Tab) -> bool:
        """Whether no log of the table is due that can be cleaned: then no other has to go on."""
        rows = self.oracles[tab.name].rows[tab.meta.current_snapshot_id]
        with contextlib.suppress(HardpackError):
            now = self.hp.said(tab.name).items()
            return not any(said.due and not bad(rows.log(log), tab, rows) for log, said in now)
        return False

    def _settle(self, kind: str, name: str) -> None:
        tab, oracle = self.lake.tabs[name], self.oracles[name]
        for each in self.lake.tabs:
            self.look(each)
        if kind in ("foreign_expire", "nightly", "season"):
            self._gone_back(tab, oracle)
        if self.outage is not None:
            look_in_an_outage(self, tab, self.outage)
            self.outage = None
        try:
            said = self.hp.said(name)
        except HardpackError as error:
            must(unfit(tab), "state", f"after {kind} the table cannot be looked at: {error}")
            oracle.said = {}
            return
        except Exception as error:
            raise Violation("errors", f"status raised {type(error).__name__} after {kind}: {error}") from error
        size = len(tab.meta.properties.get("hardpack.state", ""))
        must(
            size <= BYTES_A_LOG * max(1, len(said)), "state-size", f"the state takes {size} bytes for {len(said)} logs"
        )
        must(tab.meta.format_version > 1, "v1", "a table of format v1 is looked at as if late rows could be told")
        quiet = kind in HARMLESS and not self.interrupted and not any(s.phase == "retention" for s in self.landed)
        settings = settings_of(open_table(self.lake, name)).model_dump(by_alias=True)
        oracle.settle(tab.meta.current_snapshot_id, said, quiet, settings, self.now)
        # phase two makes the clean part smaller, and so the ratio greater
        shrunk = any(landed.phase == "two" for landed in self.landed)
        if kind == "scheduled" and not (self.interrupted or self.failed or shrunk):
            _others_cleaned(tab, oracle, self._cleaned_now())


def as_said(kind: str, before: set[int], after: set[int]) -> None:
    """The simulator's own check: others change the visible rows as their step says."""
    if kind in ("append", "mixed", "late", "redeliver", "negative", "cherry_pick"):
        holds = before <= after
    elif kind in ("delete", "truncate", "replace_table"):
        holds = after <= before
    elif kind in ("binpack", "evolve", "respec", "upgrade", "foreign_expire", "rewrite_manifests", "refer"):
        holds = before == after
    else:
        holds = True
    must(holds, "simulator", f"{kind} changed other rows than it says")


def _read_to(tab: Tab) -> dict[int, int]:
    """By log the least offset at which a named reader goes on, as the table's properties have it."""
    found: dict[int, int] = {}
    for name, text in tab.meta.properties.items():
        if name.startswith("hardpack.reader."):
            log, offset = int(name.rpartition(":")[2]), json.loads(text)["offset"]
            found[log] = min(found.get(log, offset), offset)
    return found


def _on_record(tab: Tab, log: int) -> int | None:
    """The snapshot of the pass that the table's property tells of."""
    logs = json.loads(tab.meta.properties.get("hardpack.state", "{}")).get("logs", {})
    found: int = logs.get(str(log), {}).get("snapshot", [None])[0]
    return found


def _reached(entry: dict[str, Any]) -> int:
    """How far a pass says that it cleaned: to the checkpoint, or less far when its map was full of late rows."""
    ends = (entry["checkpoint_after"], entry.get("latest_to"))
    return min((end for end in ends if end is not None), default=0)


def _others_cleaned(tab: Tab, oracle: Oracle, cleaned: set[int]) -> None:
    """After a scheduled run, which cleaned some logs, no log is due but one that a person has to look at."""
    if unfit(tab):
        return
    rows = oracle.rows[tab.meta.current_snapshot_id]
    for log, said in oracle.said.items():
        partly = "hardpack.log.cleaner.dedupe.buffer.size" in tab.meta.properties
        # a pass that may not go as far as the last one leaves the rest to the next run
        short = log in cleaned and said.first_dirty < (said.checkpoint or 0)
        must(not said.due or partly or short or bad(rows.log(log), tab, rows), "isolation",
             f"log {log} is still due after a scheduled run: {said.reason}")  # fmt: skip
        must(said.reason, "stuck", f"log {log} gives no reason")


def play(steps: list[Step]) -> World:
    """Run a history and drain it; raises the first violation."""
    with simulated():
        world = World()
        for step in steps:
            world.do(step)
        drain(world)
        return world


def replay(steps: list[Step]) -> None:
    """Run a history, as the scripts of failing ones do."""
    play([s if isinstance(s, Step) else Step(*s) for s in steps])
