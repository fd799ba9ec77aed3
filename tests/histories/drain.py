"""The end of every history: what a person would do, and then nothing may be left pinned."""

from __future__ import annotations

from typing import Any

from hardpack.errors import HardpackError

from tests.histories.expiry import referred
from tests.histories.ice import Tab
from tests.histories.oracle import Violation, must
from tests.histories.steps import Step

DAY = 86_400_000
ROUNDS, MOST_ROUNDS, AFTER = 5, 15, 3
"""Rounds of runs and nights, at most, and those that follow the last row that left, until its file can be gone."""
CHAINED = 12
"""Appends that each deliver the row before again, until nobody can take the chain for chance."""
SETTLED = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "",
    "max.compaction.lag.ms": "", "delete.retention.ms": "3600000", "idle.tombstones": "expire", "late.rows": "clean",
    "active.segment": "newest", "log.cleaner.dedupe.buffer.size": "", "maintenance": "",
    "horizon.readers.limit.ms": "86400000", "segment.ms": "",
}  # fmt: skip


def drain(world: Any) -> None:
    """Resume, roll, run on schedule and every night; then see that each log is clean or says why it is not."""
    world.skew = 0
    names = sorted(n for n, tab in world.lake.tabs.items() if tab.meta.format_version > 1 and tab.adopted)
    for name in names:
        _settled(world, name)
    # what a clock ahead gave a horizon may be due only after a while
    last, left = 0, -1
    for number in range(MOST_ROUNDS):
        if number >= max(ROUNDS, last + AFTER):
            break
        world.do(Step("advance", {"ms": 6 * DAY}))
        for name in names:
            world.do(Step("scheduled", {"t": name}))
            if not number or _is_asked_again(world, name):
                # which log's late rows a file of several logs had is known once it is split
                world.do(Step("resume", {"t": name, "trust": True}))
            world.do(Step("nightly", {"t": name}))
        if (now := sum(len(world.oracles[name].removed) for name in names)) != left:
            last, left = number, now
    for name in names:
        _nothing_pinned(world, world.lake.tabs[name])


def _is_asked_again(world: Any, name: str) -> bool:
    """Whether a person has to say once more that a topic is one, as the active segment kept a pass from its old rows.

    A limit that docs/limits.md names.
    """
    return any(said.reason.startswith("refused: the rows from offset") for said in world.oracles[name].said.values())


def _settled(world: Any, name: str) -> None:
    """What a person does: mends the columns, sets the settings back, resumes, and lets each log go on."""
    tab, oracle = world.lake.tabs[name], world.oracles[name]
    world.do(Step("evolve", {"t": name, "what": "restore"}))
    tab.set_properties({k: None for k in tab.meta.properties if k.startswith("history.expire.")})
    world.do(Step("settings", {"t": name, **{k.replace(".", "__"): v for k, v in SETTLED.items()}}))
    must(not world.failed, "isolation", f"the settings of {name} can no longer be changed")
    rounds = max([1, *oracle.paused.values()])
    for _ in range(rounds):
        world.do(Step("resume", {"t": name, "trust": True}))
    try:
        world.hp.resume(name)
    except HardpackError as error:
        raise Violation("errors", f"resume of all logs raised {error}") from error
    world.look(name)
    # of a log whose rows all wait to be split nobody has said anything yet
    waiting = {row.log for row in oracle.rows[tab.meta.current_snapshot_id].waiting.values()}
    # a snapshot is read by the columns of its time, so that renamed ones wait for the next write
    as_written = tab.current is None or tab.current.schema_id == tab.meta.current_schema_id
    wrote = set() if world.idle and as_written and not world.chain else oracle.said.keys() | waiting
    logs = {str(log): [["drain", "value", 1, "now"]] for log in sorted(wrote)}
    # a source goes on behind the last row, also where a cherry-pick brought that back
    for row in oracle.rows[tab.meta.current_snapshot_id].of.values():
        world.ends[name, row.log] = max(world.ends.get((name, row.log), row.offset), row.offset)
    for _ in range(CHAINED if world.chain else 1):
        if logs:
            world.do(Step("append", {"t": name, "logs": logs, "chain": world.chain}))
    world.do(Step("resume", {"t": name, "trust": True}))


def _nothing_pinned(world: Any, tab: Tab) -> None:
    oracle = world.oracles[tab.name]
    rows = oracle.rows[tab.meta.current_snapshot_id]
    must(not rows.waiting, "pinned", f"{len(rows.waiting)} rows are in files of several logs, which nobody splits")
    for log, said in sorted(oracle.said.items()):
        own = rows.log(log)
        # others may hide a bad row, whose file still tells of it
        if not own or bad(own, tab, rows) or said.reason.startswith("uncleanable: "):
            must(not own or said.reason, "stuck", f"log {log} is not cleaned and does not say why")
            continue
        newest = rows.newest(log)
        begins = min(r.offset for r in own if rows.file[r.rid] == newest)
        if world.idle:
            begins = _active_from(own, rows, begins)
        # a row delivered again may stand at the border, in the newest file and in the one before
        behind = said.first_dirty if not world.idle else 0
        below = [r for r in own if rows.file[r.rid] != newest and (r.offset < begins or behind > r.offset)]
        keys: dict[str | None, int] = {}
        for row in own:
            keys[row.key] = max(keys.get(row.key, -1), row.offset)
        left = [r for r in below if r.key is not None and keys[r.key] > r.offset and _covered(r, below)]
        must(not left or said.stuck, "pinned",
             f"log {log}: the row at {left[0].offset if left else 0} is superseded, stays: {said.reason}")  # fmt: skip
        due = [r for r in below if r.value is None and r.key is not None
               and (said.horizon(r.offset) or 0) <= world.clock]  # fmt: skip
        told = said.stuck or said.reason.endswith("tombstones past their horizon wait for rows behind it")
        must(not due or told, "pinned",
             f"log {log}: the tombstone at {due[0].offset if due else 0} never leaves: {said.reason}")  # fmt: skip
        must(not said.due, "due-again", f"log {log} is due without new rows ({said.reason})")
    dead = oracle.removed - rows.of.keys()
    # in a living file rows that hardpack removed once may be back, and hidden by others
    needed, live = referred(tab), set(tab.paths(tab.current))
    kept = [p for p, (made, found) in tab.kept().items()
            if p not in needed | live and found & dead and made < world.clock - 4 * 6 * DAY]  # fmt: skip
    must(not kept, "storage", f"{len(kept)} files with removed rows are still in the storage ({tab.name})")


def _active_from(own: list[Any], rows: Any, begins: int) -> int:
    """Where the active segment begins if no row comes behind it: files that overlap in a chain are one segment."""
    ends: dict[str, int] = {}
    for row in own:
        ends[rows.file[row.rid]] = max(ends.get(rows.file[row.rid], -1), row.offset)
    for row in sorted(own, key=lambda r: -r.offset):
        if row.offset < begins < ends[rows.file[row.rid]]:
            begins = row.offset
    return begins


def _covered(row: Any, below: list[Any]) -> bool:
    """Whether a row below the active segment supersedes it."""
    return any(r.key == row.key and r.offset > row.offset for r in below)


def bad(own: list[Any], tab: Tab, rows: Any) -> bool:
    """Whether a log can rightly not be cleaned: two rows at an offset, rows without key, file without bounds."""
    contents: dict[int, Any] = {}
    disputed = any(contents.setdefault(r.offset, r[1:]) != r[1:] for r in own)
    refuses = tab.meta.properties.get("hardpack.null.keys", "refuse") == "refuse"
    keyless = refuses and any(r.key is None for r in own)
    unbounded = any(not tab.bounded(rows.file[r.rid]) for r in own)
    return disputed or keyless or unbounded or any(r.offset < 0 for r in own)
