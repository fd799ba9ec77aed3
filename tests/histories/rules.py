"""The rules by which the oracle judges: why a row may go, when a log is due, what hardpack has to remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from hardpack.rules.times import LONG_MAX

from tests.histories.promises import Line, Pass, Rows, Said, Violation, must


def remembered(log: int, before: Said, now: Said, rows: Rows) -> None:
    # of a log that is left alone nobody says how far it was cleaned
    alone = before.refused or before.reason.startswith("paused")
    # where nobody tells any more that rows were replaced, an old checkpoint does no harm while all rows are dirty
    harmless = alone or (before.checkpoint is None and now.first_dirty <= before.first_dirty)
    # a log whose rows are all gone starts anew, at the latest when the files are split that may have had some
    anew = not rows.log(log) or before.waiting
    # status shows where the rows begin that do not wait to be split, when that is behind the checkpoint
    anew |= now.waiting and now.checkpoint == min((r.offset for r in rows.log(log)), default=None)
    must(now.checkpoint == before.checkpoint or harmless or anew, "state-survives",
         f"log {log}: the checkpoint {before.checkpoint} became {now.checkpoint} by itself")  # fmt: skip
    # a log that starts anew has nothing to remember
    must(
        now.expired_to >= before.expired_to or now.checkpoint is None,
        "state-survives",
        f"log {log}: removed tombstones are forgotten",
    )
    # first dirty may rise by itself: a file of which others hid every row counts until it is gone; I9 judges the rest


def of_two_topics(gone: list[Any], base: Rows, newer: frozenset[int]) -> None:
    """A row of a topic that was made anew stays beside older ones of its key, whatever their offsets."""
    for row in (r for r in gone if r.rid in newer):
        older = [r for r in base.log(row.log) if r.key == row.key and r.offset > row.offset and (r.ts or 0) < row.ts]
        must(not older, "remade", f"log {row.log}: the row at {row.offset} of a topic made anew lost to an older one")


def may_be_closed(own: list[Any], settings: Mapping[str, Any], clock: int) -> bool:
    """Whether a log's newest segment may count as closed, which begins no earlier than its first row."""
    if settings["active.segment"] == "none" or settings["segment.ms"] is None:
        return bool(settings["active.segment"] == "none")
    return any(r.ts is None or r.ts < 0 or r.ts + settings["segment.ms"] < clock for r in own)


def dirty_enough(log: int, now: Said, rows: Rows, settings: Mapping[str, Any], bounded: bool, clock: int) -> None:
    """A log is not due by its ratio when far fewer of its rows are dirty; a third allows for sizes of files."""
    if not now.due or not now.reason.startswith("dirty ratio"):
        return
    own = rows.log(log)
    if not own:
        return
    newest = rows.newest(log)
    if settings["segment.ms"] is not None and may_be_closed(own, settings, clock):
        # nobody outside knows whether the newest file counts
        return
    closed = [r for r in own if rows.file[r.rid] != newest or settings["active.segment"] == "none"]
    dirty = sum(r.offset >= now.first_dirty for r in closed)
    if bounded:
        # a segment in which a full map ended counts whole, as in Kafka
        open_files = {rows.file[r.rid] for r in closed if r.offset >= now.first_dirty}
        dirty = sum(rows.file[r.rid] in open_files for r in closed)
    shown = set(rows.file.values())
    if any(path not in shown for path in rows.sizes):
        # as do files of which others hid all
        return
    if any(base != 100 + 50 * sum(rows.file[r.rid] == path for r in own) for path, base in rows.sizes.items()
           if path in {rows.file[r.rid] for r in own}):  # fmt: skip
        # rows that others hid count in no rows, but in bytes
        return
    enough = dirty * 3 >= len(closed) * settings["min.cleanable.dirty.ratio"]
    must(enough, "ratio", f"log {log} is due ({now.reason}) with {dirty} dirty rows of {len(closed)}")


def due_in_time(log: int, now: Said, rows: Rows, settings: Mapping[str, Any], clock: int) -> None:
    """With max.compaction.lag.ms a log is due no later than Kafka, which goes by a segment's first batch."""
    limit = clock - settings["max.compaction.lag.ms"]
    excused = now.refused or not now.reason.startswith("dirty ratio")
    if limit <= 0 or now.due or excused:
        return
    files: dict[str, list[Any]] = {}
    for row in rows.log(log):
        files.setdefault(rows.file[row.rid], []).append(row)
    spans = sorted((min(o), max(o)) for o in ([r.offset for r in found] for found in files.values()))
    alone = {low for at, (low, high) in enumerate(spans[:-1])
             if high < spans[at + 1][0] and (at == 0 or max(s[1] for s in spans[:at]) < low)}  # fmt: skip
    for found in files.values():
        first = min(found, key=lambda r: r.offset)
        old = first.ts is not None and 0 < first.ts < limit
        late = old and first.offset in alone and first.offset >= now.first_dirty
        must(not late, "overdue", f"log {log} is not due though its row at {first.offset} is overdue: {now.reason}")


def refused_for_late_rows(log: int, now: Said, rows: Rows, line: Line) -> None:
    """Nobody is asked for trust where each row was seen by a pass: a deleted key could come back by it."""
    late = now.reason.startswith("refused: rows arrived") and not now.waiting
    if line.mixed or line.bounded:
        # a full map leaves rows of late ones' keys to the next pass
        return
    below = [r for r in rows.log(log) if now.checkpoint is None or r.offset < now.checkpoint]
    if line.untold and any(r.rid in line.rewritten for r in below):
        # a limit that docs/limits.md names: rows that others changed, once nothing tells of it but the state
        return
    unseen = any(r.rid not in line.seen for r in below) or _merged_with_a_gap(below, rows.log(log), rows, line)
    must(not late or unseen, "late-for-nothing",
         f"log {log} has no row below its checkpoint that no pass has seen: {now.reason}")  # fmt: skip


def _merged_with_a_gap(below: list[Any], every: list[Any], rows: Rows, line: Line) -> bool:
    """Whether rows that no pass has seen stand behind seen ones in a file of these, with offsets left out between.

    A limit that docs/limits.md names: nobody could tell such rows from late ones.
    """
    files = {rows.file[r.rid] for r in below}
    new = {r.offset for r in every if r.rid not in line.seen and rows.file[r.rid] in files}
    last = max((r.offset for r in every if r.rid in line.seen), default=-1)
    return bool(new) and any(behind > at + 1 for at, behind in pairwise(sorted({last, *new})))


def horizons(log: int, line: Line, now: Said, rows: Rows) -> dict[int, int]:
    found = dict(line.horizons)
    for rid, (least, _) in line.tombs.items():
        if rid not in rows.of:
            continue
        offset, known = rows.of[rid].offset, found.get(rid)
        horizon = now.horizon(offset)
        if rid in line.loose:
            found[rid] = horizon or known or 0
            if horizon is None:
                continue
        elif horizon is None or (known is not None and horizon != known):
            raise Violation("horizon-once", f"log {log}: the horizon of tombstone {offset} was {known}, is {horizon}")
        must(horizon >= least, "horizon-early", f"log {log}: tombstone {offset} may go at {horizon}, before {least}")
        found[rid] = horizon
    return found


def closed(gone: list[Any], base: Rows, landed: Pass, line: Line) -> None:
    """Nothing of the newest file goes, and nothing dirty that is younger than the lag (invariant 3)."""
    newest = base.newest(gone[0].log)
    # a file of which others hid all rows may be the newest
    shown = set(base.file.values())
    lag = landed.settings["min.compaction.lag.ms"]
    # a plan says what is old enough, also where the clock has been set back since
    now = max(landed.clock, landed.time)
    ends = may_be_closed(base.log(gone[0].log), landed.settings, now)
    for row in gone:
        if not ends and all(p in shown for p in base.sizes):
            must(base.file[row.rid] != newest, "I3", f"the row at {row.offset} of the newest file is gone")
        young = lag > 0 and row.ts is not None and row.ts > now - lag
        # what an earlier pass kept is no longer dirty, and the lag counts from the first dirty segment, as in Kafka
        must(
            not young or row.rid in line.seen,
            "I3",
            f"the row at {row.offset} is younger than min.compaction.lag.ms and gone",
        )


def phase_one(gone: list[Any], base: Rows, after: Rows, landed: Pass, line: Line) -> None:
    latest: dict[str | None, int] = {}
    for row in base.log(gone[0].log):
        # a portion of a pass does not tell how far that goes
        if row.offset < landed.checkpoints.get(row.log, LONG_MAX):
            latest[row.key] = max(latest.get(row.key, row.offset), row.offset)
    left = {r[1:] for r in after.log(gone[0].log)}
    # a limit that docs/limits.md names: the same offset twice inside one file may not be seen
    packed = {(base.file[r.rid], r.offset, r.key) for r in after.log(gone[0].log) if r.rid in base.file}
    for row in gone:
        superseded = row.key is not None and latest.get(row.key, -1) > row.offset
        keyless = row.key is None and landed.settings["null.keys"] == "drop"
        twice = row[1:] in left or (base.file[row.rid], row.offset, row.key) in packed
        must(superseded or keyless or twice, "I1", f"phase one took the latest row of a key, at {row.offset}")
    closed(gone, base, landed, line)


def phase_two(gone: list[Any], base: Rows, after: Rows, landed: Pass, line: Line) -> None:
    for row in gone:
        must(row.value is None and row.key is not None, "I5", f"phase two took the row at {row.offset}, no tombstone")
        known = row.rid in line.tombs or row.rid in line.undone
        must(known, "I5", f"phase two took the tombstone at {row.offset}, which no pass had covered")
        early = line.tombs.get(row.rid, (0, 0))[0] - landed.clock
        must(early <= 0, "I5", f"phase two took the tombstone at {row.offset} {early} ms before its horizon")
        if landed.settings["horizon.readers"] == "wait" and row.offset >= landed.read_to.get(row.log, row.offset + 1):
            left = landed.settings["horizon.readers.limit.ms"] + early
            must(left <= 0, "reader", f"phase two took the tombstone at {row.offset}, which a reader has not passed")
        older = [r for r in base.log(row.log) if r.key == row.key and r.offset < row.offset]
        must(not older, "I5", f"phase two took the tombstone at {row.offset} before an older row of its key")


def retention(gone: list[Any], base: Rows, after: Rows, landed: Pass, line: Line) -> None:
    settings, log = landed.settings, base.log(gone[0].log)
    must("delete" in settings["cleanup.policy"], "retention", f"retention took {len(gone)} rows, policy compact")
    end, names = max(r.offset for r in gone), {r.rid for r in gone}
    must(all(r.rid in names for r in log if r.offset < end), "retention", "retention took rows from the middle")
    files = {base.file[r.rid] for r in gone}
    must(all(r.rid in names for r in log if base.file[r.rid] in files), "retention", "retention took parts of a file")
    limit, most = settings["retention.ms"], settings["retention.bytes"]
    young = [r for r in gone if limit < 0 or not (r.ts is None or r.ts < 0 or r.ts < landed.clock - limit)]
    # what is too much goes first, and then what is too old of the rest
    first = {base.file[r.rid] for r in gone if young and r.offset <= max(y.offset for y in young)}
    own, shown = {base.file[r.rid] for r in log}, set(base.file.values())
    # a file of which others hid all rows has its bytes still, and may be the log's
    sizes = {p: s for p, s in base.sizes.items() if p in own or p not in shown}
    large = 0 <= most <= sum(s for p, s in sizes.items() if p not in first)
    must(not young or large, "retention", f"retention took {len(gone)} rows that were neither old nor too many")


def left_storage(oracle: Any, before: int | None, after: int, lying: Iterable[Any]) -> None:
    """With a tombstone every older row of its key that passes knew has left the files, hidden ones too (invariant 5).

    Args:
        oracle: of the table.
        before: the snapshot before a phase two.
        after: the one that it made.
        lying: all rows in the data files of that.
    """
    if after not in oracle.rows:
        # a test has kept the oracle from looking
        return
    was, now, lines = oracle.rows[before].of, oracle.rows[after].of, oracle.lines[after]
    gone = {(row.log, row.key): row.offset for rid, row in was.items() if rid not in now}
    older = (row for row in lying if row.offset < gone.get((row.log, row.key), -1))
    left = [row for row in older if row.log in lines and row.rid in lines[row.log].seen]
    must(not left, "I5", f"the row at {left[0].offset if left else 0} of a deleted key lies hidden in a file")
