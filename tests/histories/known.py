"""Histories that once broke a promise, each with the rule that told: what was found stays found."""

from __future__ import annotations

from typing import Any

from tests.histories.steps import Step

HOUR, DAY = 3_600_000, 86_400_000
T = "t.a"
LONG_MAX = str(2**63 - 1)


def _create(version: int = 2, chain: bool = False, by_log: bool = True, **settings: str) -> Step:
    named = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    named |= {k.replace("__", "."): v for k, v in settings.items()}
    return Step("create", {"t": T, "version": version, "settings": named, "chain": chain, "by_log": by_log})


def _append(*rows: Any, log: int = 0, **more: Any) -> Step:
    """Keys in order; one that ends with `-` is a tombstone, `None` a row without key, a pair a key and a timestamp."""
    made = []
    for row in rows:
        key, ts = row if isinstance(row, tuple) else (row, "now")
        kind = "tombstone" if key and key.endswith("-") else "value"
        made.append([key.rstrip("-") if key else key, kind, 1, ts])
    return Step("append", {"t": T, "logs": {str(log): made}, **more})


def _late(percent: int, key: str, log: int = 0) -> Step:
    return Step("late", {"t": T, "log": log, "rows": [[percent, key, "value"]]})


def _advance(ms: int) -> Step:
    return Step("advance", {"ms": ms})


def _do(kind: str, **args: Any) -> Step:
    return Step(kind, {"t": T, **args})


CLEAN, RUN, NIGHT = _do("clean"), _do("scheduled"), _do("nightly")
PACK_ALL = _do("binpack", mode="replace", share=100)
GAPS = [("b", "tombstone", 3), ("c", "tombstone", 5)]
OTHERS = [[key, "value", 1, "now"] for key in "xyz"]

KNOWN: dict[str, tuple[set[str], list[Step]]] = {
    "a backfill before the first row is no prey of retention": (
        {"retention"},
        [_create(), _append("a", "b"), _append("c"), _append("d"), CLEAN, _late(10, "e"), _do("retention")],
    ),
    "a bin-pack of everything forgets nothing": (
        {"state-survives"},
        [_create(), _append("a", "b-"), _append("c"), _append("d"), CLEAN, PACK_ALL],
    ),
    "an UPDATE of all rows forgets nothing": (
        {"I6"},
        [_create(), _append("a", "b-"), _append("c"), _append("d"), CLEAN, _advance(HOUR),
         _do("update", column="ingested")],
    ),
    "a pass that moves only the state is tied to its base": (
        {"base-lost"},
        [_create(), _append("a"), _append("b"), _append("c"), _append("d"),
         Step("ambush", {"at": 0, "step": ["rollback", {"t": T, "back": 1}]}), CLEAN],
    ),
    "a new column in the place of the value makes no tombstones": (
        {"I1", "I5"},
        [_create(), _append("a"), _append("b"), CLEAN, _do("evolve", what="replace"), _append("c"), CLEAN,
         _advance(2 * DAY), _do("expire_tombstones")],
    ),
    "a paused log keeps its tombstones": (
        {"paused"},
        [_create(idle__tombstones="expire"), _append("a-"), _append("b"), CLEAN, _do("pause", log=0), _advance(2 * DAY),
         _do("expire_tombstones")],
    ),
    "a paused log keeps its segments": (
        {"paused"},
        [_create(cleanup__policy="compact,delete", retention__ms="1"), _append("a"), _append("b"),
         _do("pause", log=0), _advance(DAY), _do("retention")],
    ),
    "a log that is only deleted has no phase two": (
        {"policy"},
        [_create(), _append("a-"), _append("b"), CLEAN, _do("settings", cleanup__policy="delete", retention__ms="-1"),
         _advance(2 * DAY), _do("expire_tombstones")],
    ),
    "a table of format v1 is refused": ({"v1"}, [_create(version=1), _append("a")]),
    "a horizon counts from the commit": (
        {"horizon-early"},
        [_create(), _append("a-"), _append("b"), _do("plan", slot=0), _advance(30 * HOUR), _do("apply", slot=0)],
    ),
    "a plan that waits moves no horizon that was there": (
        {"horizon-once"},
        [_create(log__cleaner__dedupe__buffer__size="72"), _append("d-", "b", "d-"), _append("v"), RUN,
         _do("plan", slot=0, force=True), _advance(HOUR), _do("apply", slot=0)],
    ),
    "a late row gives no tombstone a new horizon": (
        {"horizon-once"},
        [_create(), _append("a", "b-"), _append("c"), _append("d"), CLEAN, _advance(HOUR), _late(10, "e"), CLEAN],
    ),
    "rows that came by INSERT OVERWRITE are dirty after an expiry too": (
        {"I9", "state-survives"},
        [_create(), _append("a", "b"), _append("c"), _append("d"), CLEAN,
         _do("insert_overwrite", log=None, rows=OTHERS), _append("e"), _do("foreign_expire", keep=2)],
    ),
    "a pass that a rollback undid is not believed, after an overwrite and further passes": (
        {"I9"},
        [_create(), _append("a", "b-"), _append("c"), _append("d"), CLEAN,
         _do("insert_overwrite", log=None, rows=OTHERS), _append("e"), _append("f"), CLEAN, _append("g-"), _append("h"),
         CLEAN, _do("rollback", back=2), _append("i"), _do("verify"), CLEAN, _do("verify")],
    ),
    "late rows are not the fault of a pass": (
        {"verify"},
        [_create(), _append("a", "b"), _append("a"), _append("d"), CLEAN, _late(10, "a"), _do("verify")],
    ),
    "verify blames nobody once the snapshots of a pass have expired": (
        {"verify"},
        [_create(), _append("a", "b"), _append("a"), _append("d"), CLEAN, _append("d"), _late(10, "a"),
         _do("delete", key="b"), _do("foreign_expire", keep=4), _do("verify")],
    ),
    "late rows stay late through the rewrites of others": (
        {"I9"},
        [_create(), _append("a", "b"), _append("c"), _append("d"), CLEAN,
         _do("late", log=0, rows=[[10, "c", "value"], [20, "e", "value"]]), _do("delete", key="e")],
    ),
    "rows that an UPDATE gave another key are looked at again": (
        {"I9"},
        [_create(), _append("a", "b"), _append("c"), _append("d"), CLEAN,
         _do("update", column="key", key="a", to="b")],
    ),
    "a tombstone may be kept for ever": (
        {"state", "isolation"},
        [_create(delete__retention__ms=LONG_MAX), _append("a-"), _append("b"), CLEAN],
    ),
    "an idle log and a rewrite of manifests pin no snapshot": (
        {"snapshots"},
        [_create(), _append("a", log=1), _append("b", log=1), _append("a"), _append("b"), RUN,
         _do("season", days=20, idle=True)],
    ),
    "snapshots may be kept for ever": (
        {"errors"},
        [_create(), _append("a"), _do("properties", **{"history__expire__max-snapshot-age-ms": LONG_MAX}), NIGHT],
    ),
    "a pass by a clock in the future locks no log for good": (
        {"pinned", "ahead"},
        [_create(), _append("a"), _append("b"), Step("skew", {"ms": 365 * DAY}), CLEAN, Step("skew", {"ms": 0}),
         _append("a"), _append("b")],
    ),
    "a pass at a time ahead of the clock is refused": (
        {"ahead"},
        [_create(), _append("a"), _append("b"), _do("ahead", ms=40 * DAY)],
    ),
    "a source that delivers its last row again does not hide the log": (
        {"pinned"},
        [_create(chain=True), *(_append("a", "b", chain=True) for _ in range(5)), RUN],
    ),
    "a row without a time does not switch the greatest lag off": (
        {"overdue"},
        [_create(min__cleanable__dirty__ratio="1", max__compaction__lag__ms=str(DAY)), _append("a", ("b", 0)),
         _append("c"), _advance(3 * DAY), _do("status")],
    ),
    "a file across the checkpoint does not count twice": (
        {"ratio"},
        [_create(min__cleanable__dirty__ratio="0.4"), _append("a", log=1), _append(*"abcdefghijklmnop"), _append("q"),
         CLEAN, _do("binpack", mode="starting", share=100, logs=[0]), _append("r")],
    ),
    "a keyless row stops its own log alone": (
        {"isolation"},
        [_create(), _append("a", None), _append("a"), _append("a", log=1), _append("a", log=1), RUN],
    ),
    "two rows at one offset stop their own log alone": (
        {"isolation"},
        [_create(), _append("a", "b"), _append("c"), _do("redeliver", log=0, percent=0, number=1, ingested=True),
         _append("d"), _append("a", log=1), _append("a", log=1), _append("a", log=1), RUN],
    ),
    "a file without bounds stops its own log alone": (
        {"state", "isolation"},
        [_create(), _append("a", bounded=False), _append("b"), _append("a", log=1), _append("a", log=1), RUN],
    ),
    "offset -1 stops its own log alone": (
        {"isolation"},
        [_create(), _append("a"), _do("negative", log=0, key="a"), _do("negative", log=0, key="b"), _append("c"),
         _append("a", log=1), _append("a", log=1), RUN],
    ),
    "what was recorded of rows that a rollback took is asked for again": (
        {"I6"},
        [_create(), _append("c-"), _append("d"), RUN, PACK_ALL, _advance(7 * DAY), _append("e"), NIGHT,
         _do("rollback", back=3)],
    ),
    "a bin-pack of a file without bounds forgets nothing": (
        {"state-survives"},
        [_create(), _append("b"), _append("b"), RUN, _append("b", bounded=False),
         _do("binpack", mode="overwrite", share=100)],
    ),
    "rows that come below the new log start during the first retention are late": (
        {"I9"},
        [_create(cleanup__policy="compact,delete", retention__bytes="0"), _append("b"),
         Step("ambush", {"at": 0, "step": ["late", {"t": T, "log": 0, "rows": [[20, "b", "value"]]}]}),
         _do("retention")],
    ),
    "a log that is marked after a rollback does not stop the others": (
        {"conflict"},
        [_create(), _append("a", log=1), _append("b", log=1), _append("c"),
         _do("redeliver", log=0, percent=60, number=2, ingested=True), _append("b"), _append("d", log=1),
         _do("insert_overwrite", log=0, rows=[["c", "value", 1, "now"]], from_start=False), _append("a", log=1),
         _append("z"), RUN, _do("rollback", back=4), CLEAN],
    ),
    "a horizon at the end of time is one": (
        {"horizon-once"},
        [_create(delete__retention__ms=LONG_MAX), _append("a-", "b", "b"), _append("c"), RUN,
         _do("binpack", mode="overwrite", share=30), NIGHT],
    ),
    "a late tombstone behind the end of a full map has a horizon of its own": (
        {"I5"},
        [_create(log__cleaner__dedupe__buffer__size="48"),
         _do("append", logs={"0": [[k, kind, gap, "now"] for k, kind, gap in [("a", "value", 1), *GAPS]]}),
         _append("d"), CLEAN, _advance(30 * HOUR), _do("late", log=0, rows=[[80, "z", "tombstone"]]), _append("e"),
         _do("settings", log__cleaner__dedupe__buffer__size=""), RUN],
    ),
    "a pass behind a rollback lands on no line where the undone passes are back": (
        {"I6"},
        [_create(), _append("a"), _append("b"), _append("c"), RUN, _append("d"), _append("e"),
         Step("ambush", {"at": 1, "step": ["set_snapshot", {"t": T, "pick": 5}]}), _do("set_snapshot", pick=1), CLEAN],
    ),
    "what is recorded of one line of snapshots does not land on another": (
        {"I9"},
        [_create(version=3), _append("c"), _append("a"), RUN, PACK_ALL, _late(20, "c"),
         Step("ambush", {"at": 0, "step": ["set_snapshot", {"t": T, "pick": 0}]}), NIGHT],
    ),
    "verify blames no pass for a column that was replaced": (
        {"verify"},
        [_create(delete__retention__ms="0", log__cleaner__dedupe__buffer__size="72"), _append("c"), _append("b-", "d-"),
         _append("u"), _append("w"), CLEAN, RUN, _do("evolve", what="replace"), _do("verify")],
    ),
    "where tombstones never go the state does not grow": (
        {"state-size"},
        [_create(delete__retention__ms=LONG_MAX), _append("d", "b", "d"), _append("z-"), _append("x"),
         _do("season", days=20, idle=False)],
    ),
    "a late row is not half of the large segment that it came into": (
        {"ratio"},
        [_create(min__cleanable__dirty__ratio="0.4"), _append(*"abcdefghijklmno"),
         _do("append", logs={"0": [["p", "value", 3, "now"]]}), _append("q"),
         _do("late", log=0, rows=[[0, "d", "value"], [95, "e", "value"]]), CLEAN, _late(99, "z")],
    ),
    "verify blames no pass for rows that others deleted while it ran": (
        {"verify"},
        [_create(version=3), _append("c"),
         Step("ambush", {"at": 0, "step": ["delete", {"t": T, "key": "d", "percent": 100, "on_read": True}]}),
         _append("d"), RUN, _do("insert_overwrite", log=None, rows=[["c", "value", 1, "now"]], from_start=False), RUN],
    ),
    "who looked before an expiry dates rows without a timestamp as who looks after it": (
        {"isolation"},
        [_create(min__compaction__lag__ms=str(24 * HOUR)), _do("append", logs={"0": [["c", "value", 2, -1]]}),
         _advance(25 * HOUR), _append("a"), _do("foreign_expire", keep=1), RUN],
    ),
    "a pause on another line of snapshots tells nothing of this one's checkpoints": (
        {"I6"},
        [_create(), _append("a", log=0), _append("b", log=1), _append("b", log=1), CLEAN, _append("c", log=1),
         _append("d", log=1), CLEAN, _do("pause", log=0), _do("set_snapshot", pick=4), _do("pause", log=1),
         _do("set_snapshot", pick=7)],
    ),
    "a file with the one row that the next begins with is no less young after a pass": (
        {"isolation"},
        [_create(min__compaction__lag__ms=str(HOUR), min__cleanable__dirty__ratio="0.5"), _append(("a", None)),
         Step("skew", {"ms": HOUR}), _late(30, "u"), _append("c-", chain=True), _do("foreign_expire", keep=2),
         _do("append", logs={"0": []}, chain=True), RUN],
    ),
    "a log that was truncated is as new after an expiry as before it": (
        {"state-survives"},
        [_create(min__cleanable__dirty__ratio="0.5"), _append("b"), _append("y"), CLEAN, _do("truncate"),
         _late(40, "z"), _do("foreign_expire", keep=1), _append("b", log=1),
         _do("merge", log=1, key="b", rows=[["a", "value", 1, "now"]]), _do("truncate"), _append("b"),
         _do("foreign_expire", keep=4)],
    ),
    "an UPDATE may give a row the key of one that was deleted": (
        {"I9-risen"},
        [_create(), _append("b"), _append("a-"), _append("c"), RUN, _advance(7 * 24 * HOUR), _do("expire_tombstones"),
         _do("update", column="key", key="b", to="a"), RUN],
    ),
    "a log whose rows were all replaced is new, though rows came in a file of two logs since": (
        {"state-survives"},
        [_create(by_log=False, min__cleanable__dirty__ratio="0.5", log__cleaner__dedupe__buffer__size="72"),
         _append("z"), _append("x"), _do("mixed", rows=[["d", "value", 3, "now"]]), CLEAN, _late(5, "u"), RUN,
         _do("truncate"), _do("mixed", rows=[["a", "tombstone", 3, "now"], ["c", "value", 1, "now"]]),
         _do("expire_tombstones")],
    ),
    "a log that was overwritten does not get its old checkpoint back from a file of two logs": (
        {"I6"},
        [_create(by_log=False), _do("mixed", rows=[["d", "value", 2, "now"], ["b", "value", 1, "now"],
         ["a", "value", 1, "now"]]), _append("c"), RUN,
         _do("insert_overwrite", log=0, rows=[["d", "value", 1, "now"]], from_start=True),
         _do("mixed", rows=[["a", "tombstone", 1, "now"], ["a", "value", 3, "now"]])],
    ),
    "a file of several logs that leaves may have held the last known rows of a log that it does not name": (
        {"I6"},
        [_create(by_log=False), _do("mixed", rows=[["b", "value", 1, "now"], ["c", "value", 1, "now"]]),
         _do("mixed", rows=[["a", "tombstone", 1, "now"], ["c", "value", 3, "now"]]), RUN,
         _do("mixed", rows=[["c", "tombstone", 1, "now"], ["a", "value", 3, "now"], ["d", "value", 1, "now"]]),
         _do("delete", key="c", percent=100, on_read=False),
         _do("mixed", rows=[["b", "value", 2, "now"], ["d", "value", 2, "now"]]),
         _do("delete", key="a", percent=100, on_read=False)],
    ),
    "a log that was replaced stays so when a bin-pack puts its rows into a file of several logs": (
        {"state-survives"},
        [_create(by_log=False), _do("mixed", rows=[["a", "value", 1, "now"], ["a", "value", 1, "now"]]),
         _do("insert_overwrite", log=None, rows=[["c", "value", 3, "now"]], from_start=False),
         _do("mixed", rows=[["a", "value", 1, "now"], ["a", "value", 1, "now"]]),
         _do("mixed", rows=[["c", "value", 1, "now"], ["b", "value", 1, "now"]]), RUN,
         _do("insert_overwrite", log=0, rows=[["a", "value", 1, "now"]], from_start=True),
         _append("w-"), _do("binpack", mode="replace", share=30, by_key=False, across=True)],
    ),
    "a file of several logs that came with row-level deletes may hold rows that passes knew": (
        {"I6"},
        [_create(by_log=False, delete__retention__ms="0"), _append("a", "b-"), _append("c", "d", log=1),
         _append("a", "e"), _append("c", "f", log=1), _append("g"), _append("h", log=1), RUN, _advance(DAY),
         _do("expire_tombstones"), _do("update_on_read", across=True), _do("drop_hidden"),
         _do("update_on_read", across=True), _do("drop_hidden"), _append("n"), NIGHT, RUN],
    ),
    "a file that came with row-level deletes that name no log may hold rows that passes knew": (
        {"I6"},
        [_create(by_log=False, delete__retention__ms="0"), _append("a", "b-"), _append("c", "d", log=1),
         _append("a", "e"), _append("c", "f", log=1), _append("g"), _append("h", log=1), RUN, _advance(DAY),
         _do("expire_tombstones"), _do("update_on_read", across=False), _do("drop_hidden"),
         _do("update_on_read", across=False), _do("drop_hidden")],
    ),
    "a log that was replaced stays so when its new rows are updated on read": (
        {"conflict"},
        [_create(), _append("a"), _append("a-"), RUN, _do("update_on_read", across=False),
         _do("insert_overwrite", log=None, rows=[["c", "tombstone", 1, "now"]], from_start=False),
         _do("update_on_read", across=False)],
    ),
    "a plan with files to split is not applied twice when others have expired the first time": (
        {"I6"},
        [_create(by_log=False), _do("late", log=0, rows=[[86, "b", "tombstone"]], beside=True), _append("u"),
         _do("plan", slot=0, force=False), _do("apply", slot=0), _do("nightly"),
         _do("mixed", rows=[["c", "tombstone", 1, "now"], ["c", "tombstone", 3, "now"]]),
         _do("foreign_expire", keep=2), _do("apply", slot=0, expire=False)],
    ),
    "a plan with files to split cleans by its own settings": (
        {"horizon-early"},
        [_create(by_log=False), _do("mixed", rows=[["c", "value", 1, "now"], ["c", "tombstone", 1, "now"]]),
         _do("plan", slot=1, force=False), _do("settings", delete__retention__ms="0"),
         _do("mixed", rows=[["d", "value", 2, "now"], ["c", "value", 1, "now"]]),
         _do("apply", slot=1, expire=False)],
    ),
    "what others rewrote while a pass ran is recorded before its history expires": (
        {"horizon-once"},
        [_create(delete__retention__ms=LONG_MAX, active__segment="none"),
         Step("ambush", {"at": 0, "step": ["binpack", {"t": T, "mode": "replace", "share": 60}]}),
         _append("z-"), CLEAN],
    ),
    "a pass that ends before the old checkpoint leaves the segments behind it as they are": (
        {"due-again"},
        [_create(active__segment="none"), _append("a-b"), _append("z"), CLEAN,
         _do("late", log=0, rows=[[18, "y", "value"]]), _do("settings", active__segment="newest"), CLEAN],
    ),
    "rows that others put beside those of another log and back are no proof that a log was replaced": (
        {"I6"},
        [_create(by_log=False, min__cleanable__dirty__ratio="0.5"),
         _do("mixed", rows=[["a", "value", 1, "now"], ["a", "value", 1, "now"]]),
         _do("mixed", rows=[["a", "value", 1, "now"]]), _do("mixed", rows=[["a", "value", 1, "now"]]),
         _do("binpack", mode="starting", share=100), _append("v", log=1), _do("rollback", back=3),
         _append("x", log=1), RUN,
         _do("binpack", mode="overwrite", share=30, across=True), _do("binpack", mode="overwrite", share=100),
         _do("mixed", rows=[["b", "value", 3, "now"]]), _do("delete", key="a", percent=60, on_read=False)],
    ),
    "rows that came while a pass ran, and were deleted since, are missed though the gate has read all others": (
        {"verify"},
        [_create(), _append("a", "b"), _append("a"), _append("c"),
         Step("ambush", {"at": 0, "step": ["append", {"t": T, "logs": {"0": [["d", "value", 1, "now"]]}}]}), CLEAN,
         _do("delete", key="d", log=0, percent=100), _do("verify")],
    ),
    "rows that came between plan and pass, and were deleted before phase two, are missed": (
        {"verify"},
        [_create(delete__retention__ms="0"), _append("a", "b-"), _append("a"), _append("c"), _do("plan", slot=0),
         _append("d"), _do("apply", slot=0), _do("delete", key="d", log=0, percent=100), _advance(DAY),
         _do("expire_tombstones"), _do("verify")],
    ),
}  # fmt: skip
"""By what must hold: the rules that told when it did not, and the history."""

REPLACED_THEN_SPLIT = [
    _create(by_log=False, delete__retention__ms="0"),
    _do("mixed", rows=[["a", "value", 1, "now"], ["a", "value", 1, "now"]]),
    _do("mixed", rows=[["a", "tombstone", 1, "now"], ["a", "tombstone", 1, "now"]]),
    _do("mixed", rows=[["c", "value", 1, "now"], ["b", "value", 1, "now"]]),
    RUN,
    _advance(DAY),
    _do("expire_tombstones"),
    _append("z"),
    _append("y"),
    RUN,
    _do("insert_overwrite", log=0, rows=[["a", "value", 1, "now"]], from_start=True),
    _do("mixed", rows=[[key, "value", 1, "now"] for key in "kkmm"]),
    _do("mixed", rows=[["q", "value", 1, "now"], ["q", "value", 1, "now"]]),
    _do("delete", key="m", log=1, percent=100, on_read=False),
    RUN,
    RUN,
]
"""Somebody replaces log 0, and others rewrite a file in which its new rows wait."""
