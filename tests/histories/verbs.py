"""What hardpack does to a table, called as a person, a scheduler or two of them at once would."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from hardpack import faults
from hardpack.compaction.plan import Plan
from hardpack.errors import HardpackError
from hardpack.faults import Fault, Stopped
from hardpack.operations.readers import Positions

from tests.histories.expiry import referred_snapshots
from tests.histories.ice import Tab, replaced, unfit
from tests.histories.oracle import must

Verb = Callable[..., None]
VERBS: dict[str, Verb] = {}
DAY = 86_400_000


def verb(function: Verb) -> Verb:
    """Make a function a step under its own name."""
    VERBS[function.__name__] = function
    return function


def _planned(world: Any, tab: Tab, **arguments: Any) -> Plan:
    plan = world.hp.plan(tab.name, world.now, **arguments)
    world.using(plan.settings, plan.now)
    return plan


@verb
def scheduled(world: Any, tab: Tab) -> None:
    """A scheduled run: what is due is cleaned, due tombstones leave, and the guarantees are checked."""
    plan = _planned(world, tab)
    if plan.has_work:
        world.hp.clean_or_replan(plan)
        world.hp.expire_after(plan)
    verify(world, tab)


@verb
def nightly(world: Any, tab: Tab) -> None:
    world.hp.maintain(tab.name, world.now)
    world.look(tab.name)
    if tab is world.lake.tabs[tab.name]:
        left = {s.snapshot_id for s in tab.meta.snapshots}
        world.oracles[tab.name].expired(tab.meta.current_snapshot_id, left)


@verb
def ahead(world: Any, tab: Tab, ms: int) -> None:
    """A pass by a clock that is far ahead."""
    plan = world.hp.plan(tab.name, world.now + ms)
    world.using(plan.settings, plan.now)
    # whoever says so knows that the rows are old enough
    world.settings["min.compaction.lag.ms"] = 0
    report = world.hp.clean(plan)
    must(report.snapshot is None, "ahead", f"a pass at a time {ms} ms ahead of the clock was committed")


@verb
def clean(world: Any, tab: Tab, force: bool = False) -> None:
    """Plan, dry run and phase one, which does what the dry run says; a log just cleaned is not due again."""
    plan, before = _planned(world, tab, force=force), tab.place
    with contextlib.suppress(HardpackError):
        ahead = world.hp.clean(plan, dry_run=True)
    must(tab.place == before, "dry-run", "a dry run changed the table")
    report = world.hp.clean(plan)
    if report.snapshot and not world.interrupted and not plan.split:
        said, did = ([(e.partition, e.rows_before, e.rows_after, e.checkpoint_after, e.files_rewritten) for e in r.logs]
                     for r in (ahead, report))  # fmt: skip
        must(said == did, "dry-run", f"a dry run said {said}, and the pass did {did}")
    cleaned = {entry.partition for entry in report.logs}
    partly = "hardpack.log.cleaner.dedupe.buffer.size" in tab.meta.properties
    if report.snapshot and not world.interrupted and not partly:
        again = {p.partition for p in world.hp.plan(tab.name, world.now).doing("clean")}
        must(not cleaned & again, "due-again", f"logs {sorted(cleaned & again)} are due right after their pass")


@verb
def unit_bytes(world: Any, tab: Tab, bytes: int | None = None) -> None:
    """The policy says another number of bytes that one commit takes."""
    world.unit_bytes = bytes


@verb
def dies(world: Any, tab: Tab, commits: int) -> None:
    """A pass whose process ends when it has made so many commits, each of a portion, and one more."""
    faults.arm(Fault("committed", "stop", commits))
    try:
        world.hp.clean(_planned(world, tab))
    except Stopped:
        world.counts["died"] += 1
    finally:
        faults.arm(None)


@verb
def plan(world: Any, tab: Tab, slot: int, force: bool = False) -> None:
    """A plan is made and kept for later."""
    world.plans[tab.name, slot] = _planned(world, tab, force=force)
    world.applied.pop((tab.name, slot), None)


@verb
def apply(world: Any, tab: Tab, slot: int, expire: bool = True) -> None:
    """A plan made earlier is applied, perhaps not for the first time."""
    kept = world.plans.get((tab.name, slot))
    if kept is None:
        return
    world.using(kept.settings, kept.now)
    done = world.applied.get((tab.name, slot))
    again = done is not None and done in world.oracles[tab.name].ancestors(tab.meta.current_snapshot_id)
    report = world.hp.clean(Plan.from_json(kept.to_json()))
    must(not again or report.repeated or report.snapshot is None, "I6", "a plan applied twice made a second commit")
    if report.snapshot:
        world.applied[tab.name, slot] = report.snapshot
    if expire:
        world.hp.expire_after(kept)


def lasting_bytes(state: str) -> int:
    """Returns the size of a state without marks, and without the horizon of a log that a later pass serves."""
    try:
        read = json.loads(state)
    except ValueError:
        return len(state)
    for log in read.get("logs", {}).values() if isinstance(read.get("logs"), dict) else ():
        log.pop("clean_given", None)
        log.pop("uncleanable", None)
        if horizons := log.pop("horizons", [])[1:]:
            log["horizons"] = horizons
    return len(json.dumps(read, separators=(",", ":")))


@verb
def season(world: Any, tab: Tab, days: int, idle: bool) -> None:
    """Weeks of daily appends, scheduled runs and nights, perhaps beside a log that nobody writes; kept bounded."""
    from tests.histories.steps import Step

    world.do(Step("rewrite_manifests", {"t": tab.name}))
    rows = [["a", "value", 1, "now"], ["b", "value", 1, "now"]]
    sizes = []
    for _ in range(days):
        world.do(Step("advance", {"ms": DAY}))
        logs = ["0"] if idle else ["0", "1"]
        world.do(Step("append", {"t": tab.name, "logs": dict.fromkeys(logs, rows), "chain": world.chain}))
        world.do(Step("scheduled", {"t": tab.name}))
        world.do(Step("nightly", {"t": tab.name}))
        if tab is not world.lake.tabs[tab.name]:
            # somebody put another table in its place
            return
        state = tab.meta.properties.get("hardpack.state", "")
        sizes.append((lasting_bytes(state), state.count('"end":')))
    # what a pass leaves the next one or a night may serve, so no two days alone are held against each other
    quarter = len(sizes) // 4
    (half, before), (whole, after) = max(sizes[quarter : 2 * quarter + 1]), max(sizes[-quarter - 1 :])
    grown = whole - half
    partly = "hardpack.log.cleaner.dedupe.buffer.size" in tab.meta.properties
    must(
        # the first retention of a log leaves a state where there was none
        partly or days < 20 or grown <= 60 or before < after,
        "state-size",
        f"the state grew by {grown} bytes in half of {days} days without a tombstone",
    )
    if unfit(tab) or any(k.startswith("history.expire.") for k in tab.meta.properties):
        return
    named = {s for r in tab.meta.refs.values() for s in [r.snapshot_id]} | referred_snapshots(tab)
    old = [s for s in tab.meta.snapshots if s.timestamp_ms < world.clock - 8 * DAY and s.snapshot_id not in named]
    must(len(old) <= 3, "snapshots", f"{len(old)} snapshots older than 8 days stay after {days} nights")


@verb
def expire_tombstones(world: Any, tab: Tab) -> None:
    world.hp.expire_tombstones(tab.name, world.now)


@verb
def retention(world: Any, tab: Tab) -> None:
    world.hp.apply_retention(tab.name, world.now)


@verb
def verify(world: Any, tab: Tab) -> None:
    """No pass of the stand-in engine is ever wrong, whether all rows are read or what a run's check reads."""
    told = [world.hp.verify(tab.name, world.now, sample=sample) for sample in (False, True)]
    for report in told:
        must(report.passes_hold, "verify", f"verify blames a pass that was right ({report.note or 'no note'})")
    # where nothing is read anew nothing may be wrong
    must(told[0].success == told[1].success, "verify", "the check of a run finds other than one that reads all")
    world.counts["logs not read again"] += told[1].not_read_again


@verb
def status(world: Any, tab: Tab) -> None:
    """A look from cold, which tells what a look with a memory tells."""
    with_memory, cold = world.hp.said(tab.name), world.cold().said(tab.name)
    must(with_memory == cold, "memory", f"a look with a memory tells other than one without: {with_memory} {cold}")


def look_in_an_outage(world: Any, tab: Tab, reads: int) -> None:
    """A look at what is new, which ends after so many reads and has to leave nothing behind."""
    world.store.reads_left = reads
    try:
        world.hp.said(tab.name)
    except (OSError, HardpackError):
        world.counts["looks cut off"] += 1
    finally:
        world.store.reads_left = None
    with contextlib.suppress(HardpackError):
        status(world, tab)


@verb
def pause(world: Any, tab: Tab, log: int) -> None:
    if log in world.oracles[tab.name].said:
        world.hp.pause(tab.name, [log])
        paused = world.oracles[tab.name].paused
        paused[log] = paused.get(log, 0) + 1


@verb
def resume(world: Any, tab: Tab, log: int | None = None, trust: bool = False) -> None:
    oracle = world.oracles[tab.name]
    known = set(oracle.said) if log is None else {log} & oracle.said.keys()
    # also where nobody can look at the table as it is now
    waiting = world.hp.waiting_for_trust(tab.name) if trust else set()
    trusted = waiting if log is None else {log} & waiting
    held = [at for at in known if at in trusted or oracle.paused.get(at) or oracle.said[at].uncleanable]
    if not held and log is not None:
        return
    world.hp.resume(tab.name, None if log is None else [log], trust_late_rows=trust)
    world.look(tab.name)
    for at in held:
        oracle.paused[at] = max(0, oracle.paused.get(at, 0) - 1)
    for at in trusted:
        oracle.trust(tab.meta.current_snapshot_id, at)
    if world.interrupted:
        # of a pause and a resume at the same time either may be the later one
        oracle.paused = {at: int(now.reason.startswith("paused")) for at, now in world.hp.said(tab.name).items()}
    # of all logs it is done also where nobody can look at the table as it is now
    everyone = known | oracle.lines[tab.meta.current_snapshot_id].keys() if log is None else known
    for at in everyone:
        oracle.resumed(tab.meta.current_snapshot_id, at, world.now)


@verb
def reader(world: Any, tab: Tab, name: str, log: int, percent: int | None) -> None:
    """A named reader goes on, or begins anew; without a percentage it leaves."""
    if percent is None:
        if any(key.startswith(f"hardpack.reader.{name}:") for key in tab.meta.properties):
            world.hp.remove_reader(tab.name, name)
        return
    end = max(world.used(tab, log), default=0) + 1
    world.hp.set_reader(tab.name, name, Positions("the world", {str(log): max(0, end) * percent // 100}))


@verb
def refuse(world: Any, tab: Tab, logs: int = 1) -> None:
    """The next gate refuses, of so many logs."""
    world.planted_refusal = logs


@verb
def settings(world: Any, tab: Tab, **wanted: str) -> None:
    """Settings are changed by adopting anew; names with a point are spelled with two underscores."""
    if replaced(tab):
        # to adopt now would bind the role to the other column
        return
    named = {k.replace("__", "."): v for k, v in wanted.items()}
    world.hp.adopt(tab.name, named)
    world.adopted[tab.name] |= named


@verb
def properties(world: Any, tab: Tab, **wanted: str | None) -> None:
    """Iceberg's own table properties are set by somebody."""
    tab.set_properties({k.replace("__", "."): v for k, v in wanted.items()})
