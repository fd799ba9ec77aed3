"""Situations: short runs of steps that mean something together, which a random walk seldom strings in this order.

Each is what an operator would recognise: a backfill before a retention, a plan that waited in a queue. A situation says
what settings it wants and what its steps are; a history places them among its own, so that all else goes on between.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.histories.steps import Step

HOUR, DAY = 3_600_000, 86_400_000
Situation = Callable[[random.Random, str, int], tuple[dict[str, str], list[Step]]]
SITUATIONS: dict[str, Situation] = {}
ADDED = "uvwxyz"
"""Keys that only situations write, at first: nothing supersedes their rows by chance."""


def situation(function: Situation) -> Situation:
    """Make a function a situation under its own name."""
    SITUATIONS[function.__name__] = function
    return function


def _append(t: str, log: int, keys: list[str], kind: str = "value", **more: Any) -> Step:
    return Step("append", {"t": t, "logs": {str(log): [[key, kind, 1, "now"] for key in keys]}, **more})


def _late(t: str, log: int, percent: int, key: str, kind: str = "value") -> Step:
    return Step("late", {"t": t, "log": log, "rows": [[percent, key, kind]]})


def _clean(t: str) -> Step:
    return Step("clean", {"t": t, "force": True})


def _deleted(rng: random.Random, t: str, log: int) -> list[Step]:
    """A key that is written and deleted, and then another row, so that the tombstone is not in the last file."""
    key = rng.choice(ADDED)
    return [_append(t, log, [key]), _append(t, log, [key], "tombstone"), _append(t, log, [rng.choice(ADDED)])]


@situation
def backfill(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """Rows are put before the first of a log that was cleaned, and retention runs."""
    kind, then = rng.choice(["value", "tombstone"]), rng.choice(["retention", "nightly", "scheduled"])
    steps = [_append(t, log, [key]) for key in rng.sample(ADDED, 3)]
    return {}, [*steps, _clean(t), _late(t, log, rng.choice([0, 5, 10]), rng.choice(ADDED), kind), Step(then, {"t": t})]


@situation
def held(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A log with a tombstone is paused, or only deleted from now on; a day later the runs go on."""
    wants = rng.choice([{"idle.tombstones": "expire"}, {"cleanup.policy": "compact,delete", "retention.ms": "1"}])
    paused = Step("pause", {"t": t, "log": log})
    only_deleted = Step("settings", {"t": t, "cleanup__policy": "delete", "retention__ms": "-1"})
    then = [Step(kind, {"t": t}) for kind in rng.sample(["expire_tombstones", "retention", "scheduled"], 2)]
    after = [Step("advance", {"ms": rng.choice([2, 8]) * DAY}), *then]
    return wants, [*_deleted(rng, t, log), _clean(t), rng.choice([paused, only_deleted]), *after]


@situation
def postponed(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A plan waits in a queue for longer than a delete horizon."""
    planned, applied = Step("plan", {"t": t, "slot": 0, "force": True}), Step("apply", {"t": t, "slot": 0})
    wait = Step("advance", {"ms": rng.choice([HOUR, 30 * HOUR])})
    return {}, [*_deleted(rng, t, log), planned, wait, applied, Step("scheduled", {"t": t})]


@situation
def straggler(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A late row comes beside a tombstone that a pass has seen."""
    late = _late(t, log, rng.randrange(60), rng.choice(ADDED))
    wait = Step("advance", {"ms": rng.choice([60_000, HOUR, 6 * HOUR])})
    wants = {"delete.retention.ms": str(rng.choice([1, 7]) * DAY)}
    return wants, [*_deleted(rng, t, log), _clean(t), wait, late, _clean(t)]


@situation
def remade(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A topic is deleted and made again, and its rows come beside the old ones of the same keys."""
    keys = rng.sample(ADDED, 3)
    rows = [_append(t, log, [key]) for key in keys]
    new = Step("remake", {"t": t, "log": log, "rows": [[key, rng.choice(["value", "tombstone"])] for key in keys[:2]]})
    between = rng.choice([Step("advance", {"ms": rng.choice([HOUR, 8 * DAY])}), _append(t, log, keys[:1])])
    pack = Step("binpack", {"t": t, "mode": rng.choice(["starting", "replace"]), "share": 100, "logs": [log]})
    then = rng.choice([pack, Step("scheduled", {"t": t}), Step("nightly", {"t": t})])
    return {}, [*rows, _clean(t), between, new, then, _clean(t)]


@situation
def blamed(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A row of a key that was cleaned comes late, and somebody asks who broke the guarantee."""
    key = rng.choice(ADDED)
    rows = [_append(t, log, [key]), _append(t, log, [key]), _append(t, log, [rng.choice(ADDED)])]
    return {}, [*rows, _clean(t), _late(t, log, rng.randrange(40), key), Step("verify", {"t": t})]


@situation
def across(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A bin-pack of others makes one file of rows on both sides of the checkpoint."""
    many = [f"{rng.choice(ADDED)}{n}" for n in range(rng.choice([8, 16]))]
    pack = Step("binpack", {"t": t, "mode": rng.choice(["starting", "replace"]), "share": 100, "logs": [log]})
    steps = [_append(t, log, many), _append(t, log, ["u"]), _clean(t), pack, _append(t, log, ["v"])]
    return {"min.cleanable.dirty.ratio": rng.choice(["0.3", "0.4", "0.5"])}, steps


@situation
def undone(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """The table is rolled back while a pass that finds nothing to remove is under way."""
    rows = [_append(t, log, [f"{key}{rng.randrange(1000)}"]) for key in rng.sample(ADDED, 4)]
    back = Step("ambush", {"at": 0, "step": ["rollback", {"t": t, "back": rng.choice([1, 2])}]})
    return {}, [*rows, back, _clean(t)]


@situation
def chained(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A source begins every file with the row that the one before ended with."""
    return {}, [_append(t, log, rng.sample(ADDED, 2), chain=True) for _ in range(5)] + [Step("scheduled", {"t": t})]


@situation
def sorted_out(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A file with rows of two logs comes after a pass, and somebody takes it apart."""
    rows = [[rng.choice(ADDED), rng.choice(["value", "value", "tombstone"]), 1, "now"] for _ in range(6)]
    pack = Step("binpack", {"t": t, "mode": rng.choice(["starting", "replace", "overwrite"]), "share": 100})
    both = [_append(t, each, rng.sample(ADDED, 3)) for each in (0, 1)]
    return {}, [*both, _clean(t), Step("mixed", {"t": t, "rows": rows}), pack, Step("scheduled", {"t": t})]


@situation
def awaited(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A reader has not come to a tombstone whose horizon passes; then it does, or the limit does."""
    behind = Step("reader", {"t": t, "name": "slow", "log": log, "percent": rng.choice([0, 30])})
    through = Step("reader", {"t": t, "name": "slow", "log": log, "percent": 100})
    wants = {"horizon.readers": "wait", "idle.tombstones": "expire", "delete.retention.ms": str(HOUR)}
    wants["horizon.readers.limit.ms"] = str(rng.choice([DAY, 7 * DAY]))
    wait, expire = Step("advance", {"ms": 2 * HOUR}), Step("expire_tombstones", {"t": t})
    then = rng.choice([through, Step("advance", {"ms": 8 * DAY})])
    return wants, [*_deleted(rng, t, log), behind, _clean(t), wait, expire, then, expire]


@situation
def trusted(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """Somebody trusts late rows while this log has none; then a row comes whose tombstone is gone."""
    key, expire = rng.choice(ADDED), Step("expire_tombstones", {"t": t})
    rows = [_append(t, log, [key]), _append(t, log, [key], "tombstone"), _append(t, log, [rng.choice(ADDED)])]
    trust = Step("resume", {"t": t, "log": rng.choice([None, None, log]), "trust": True})
    wants = {"idle.tombstones": "expire", "delete.retention.ms": str(HOUR)}
    gone = [*rows, _clean(t), Step("advance", {"ms": 2 * HOUR}), expire]
    return wants, [*gone, trust, _late(t, log, rng.choice([0, 5, 10]), key), _clean(t)]


@situation
def packed(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A row comes late beside rows that others have bin-packed, nights go by, and somebody deletes it."""
    key, stays = rng.sample(ADDED, 2)
    wants = {"idle.tombstones": "expire", "delete.retention.ms": str(HOUR)}
    rows = [*_deleted(rng, t, log), _append(t, log, [stays])]
    gone = [*rows, _clean(t), Step("advance", {"ms": 2 * HOUR}), Step("expire_tombstones", {"t": t})]
    pack = Step("binpack", {"t": t, "mode": rng.choice(["starting", "replace"]), "share": 100, "logs": [log]})
    night = [Step("nightly", {"t": t}), Step("advance", {"ms": rng.choice([HOUR, 8 * DAY])})]
    late = [pack, _late(t, log, rng.choice([5, 10, 30]), key)]
    rng.shuffle(late)
    return wants, [*gone, *late, *night, *night, Step("delete", {"t": t, "key": key, "percent": 100, "log": log})]


@situation
def changed(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A row comes whose tombstone is gone, others change it merge-on-read, and the file that it came in leaves."""
    key, expire = rng.choice(ADDED), Step("expire_tombstones", {"t": t})
    wants = {"idle.tombstones": "expire", "delete.retention.ms": str(HOUR)}
    rows = [_append(t, log, [key]), _append(t, log, [key], "tombstone"), _append(t, log, [rng.choice(ADDED)])]
    gone = [*rows, _clean(t), Step("advance", {"ms": 2 * HOUR}), expire]
    update = Step("update_on_read", {"t": t, "across": rng.random() < 0.3, "by_file": rng.random() < 0.5})
    return wants, [*gone, _late(t, log, rng.choice([0, 5, 10]), key), update, Step("drop_hidden", {"t": t}), _clean(t)]


@situation
def taken(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """Rows come while a pass runs, are taken or changed right after it, and somebody asks who broke the guarantee."""
    key, old = rng.choice(ADDED), rng.choice(ADDED)
    rows = [_append(t, log, [key, old]), _append(t, log, [key]), _append(t, log, [key])]
    # a key of its own leaves no other file changed
    gone = rng.choice([old, "own"])
    arriving = rng.choice([_append(t, log, [gone]), _late(t, log, 10, gone)])
    came = Step("ambush", {"at": 0, "step": [arriving.kind, arriving.args]})
    change = {"t": t, "key": gone, "log": log}
    then = rng.choice([Step("delete", change), Step("update", {**change, "column": "value", "to": "w"})])
    return {}, [*rows, came, _clean(t), then, Step("verify", {"t": t})]


@situation
def in_portions(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """A pass of several commits, and somebody comes between them; now and then the next pass is one commit again."""
    gone, kept = rng.choice(ADDED), "uvwx"
    rows = [_append(t, log, [gone, f"{key}{key}"]) for key in kept]
    arriving = rng.choice(
        [
            Step("rollback", {"t": t, "back": rng.choice([1, 1, 2])}),
            Step("delete", {"t": t, "key": "uu", "percent": 100, "on_read": rng.random() < 0.5}),
            Step("binpack", {"t": t, "mode": "replace", "share": rng.choice([30, 100]), "by_key": False}),
            Step("pause", {"t": t, "log": log}),
            _late(t, log, 10, gone),
            _clean(t),
        ]
    )
    came = Step("ambush", {"at": rng.choice([2, 3, 4]), "step": [arriving.kind, arriving.args]})
    few, then = Step("unit_bytes", {"t": t, "bytes": 1}), Step("unit_bytes", {"t": t, "bytes": rng.choice([1, None])})
    passes = [rng.choice([_clean(t), Step("dies", {"t": t, "commits": rng.choice([1, 2])})]), _clean(t)]
    return {"segment.bytes": "14"}, [*rows, _append(t, log, [gone]), few, came, passes[0], then, passes[1]]


def gone_back(rng: random.Random, t: str, log: int) -> tuple[dict[str, str], list[Step]]:
    """Somebody goes back to before all rows were replaced, when the passes from before have expired.

    It is none of the others, among which histories choose, so that these stay what they were.
    """
    gone = rng.choice(ADDED)
    rows = [_append(t, log, [gone]), _append(t, log, [gone], "tombstone"), _append(t, log, [rng.choice("kl")])]
    removed = [_clean(t), Step("advance", {"ms": DAY}), Step("expire_tombstones", {"t": t})]
    late = [Step("advance", {"ms": 4 * DAY}), _late(t, log, rng.randrange(60), gone)]
    others = {"log": log, "rows": [["k", "value", 1, "now"]], "from_start": rng.random() < 0.3}
    replaced = rng.choice([Step("truncate", {"t": t}), Step("insert_overwrite", {"t": t, **others})])
    more = [_append(t, log, ["k"]), _append(t, log, ["l"]), _clean(t)] if rng.random() < 0.5 else []
    nights = [Step("advance", {"ms": 2 * DAY}), Step("nightly", {"t": t}), Step("set_snapshot", {"t": t, "pick": 0})]
    then = [_append(t, log, ["m"]), Step("scheduled", {"t": t})]
    return {"delete.retention.ms": str(HOUR)}, [*rows, *removed, *late, replaced, *more, *nights, *then]


def place(rng: random.Random, steps: list[Step], some: list[Step]) -> list[Step]:
    """A situation's steps among others, in their order: at one point as often as with others' steps between."""
    spread = rng.choice([0, 0, 1, 4])
    at, placed = rng.randint(0, len(steps)), list(steps)
    for step in some:
        placed.insert(at, step)
        at = min(len(placed), at + 1 + rng.randint(0, spread))
    return placed
