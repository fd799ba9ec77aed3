"""The oracle: what a table's readers may see after every step, judged without a line of hardpack's code.

It knows every physical row by a name of its own and every snapshot by the rows that it shows. What hardpack promised
is kept along the line of snapshots, so that a rollback undoes it as it undoes rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.histories import rules
from tests.histories.ice import Row
from tests.histories.promises import LONG_MAX, Line, Pass, Rows, Said, Violation, must

__all__ = ["Oracle", "Pass", "Rows", "Said", "Violation", "must"]


class Oracle:
    """What is known of one table, as long as it is that table."""

    def __init__(self, tells_late: bool = True) -> None:
        self.tells_late = tells_late
        """Whether metadata tells late rows exactly, as where the table is partitioned by log and files have bounds."""
        self.rows: dict[int | None, Rows] = {None: Rows({}, {}, {})}
        self.lines: dict[int | None, dict[int, Line]] = {None: {}}
        self.parents: dict[int | None, int | None] = {}
        self.paused: dict[int, int] = {}
        self.said: dict[int, Said] = {}
        self.removed: set[int] = set()
        """Rows that hardpack removed, on whatever line."""
        self.passes: dict[int, list[int]] = {}
        """By log the snapshots of its passes, in the order in which they were made."""
        self.trusted: set[int] = set()
        """Logs of which a person has trusted late rows, which holds where no pass is left that tells of them."""
        self.packed = False
        """Whether nothing but history tells of rows of a topic made anew that files have them and older ones."""
        self.newer: dict[int, frozenset[int]] = {}
        """By log the rows of a topic that was made anew, beside the old one's that would win over them."""
        self.cleanings: set[int] = set()
        """Snapshots of passes of phase one, which alone date tombstones."""

    def ancestors(self, snapshot: int | None) -> list[int]:
        found = []
        while snapshot is not None:
            found.append(snapshot)
            snapshot = self.parents.get(snapshot)
        return found

    def trust(self, snapshot: int | None, log: int) -> None:
        """A person has said that keys whose tombstones were removed may come back, or that a topic is still one."""
        self.newer.pop(log, None)
        self.trusted.add(log)
        if log in self.lines[snapshot]:
            lines = self.lines[snapshot]
            self.lines[snapshot] = {**lines, log: replace(lines[log], gone={})}

    def remade(self, snapshot: int | None, log: int, new: list[Row]) -> None:
        """Rows have come of a topic that was made anew; hardpack can tell where passes saw older ones behind them."""
        seen, said = self.lines[snapshot].get(log, Line()).seen, self.said.get(log)
        behind = [r for r in self.rows[snapshot].log(log) if r.rid in seen and (r.ts or -1) >= 0]
        if behind and said and said.checkpoint is not None and new[-1].offset < said.checkpoint:
            self.newer[log] = frozenset(r.rid for r in new)

    def replaced(self) -> None:
        """The table has another one's place: its logs start anew, and what was said of the old ones counts no more."""
        self.said.clear()
        self.trusted.clear()
        self.newer = {}

    def expired(self, snapshot: int | None, left: set[int] | None = None) -> None:
        """Old snapshots are gone: horizons may move where nothing tells any more what others have rewritten.

        Hardpack's own expiry keeps what tells of files, but not of single rows in files that mix old and late ones.

        Args:
            snapshot: the table's.
            left: those that hardpack's expiry has left; None when others expired all that tells.
        """
        if self.packed:
            self.newer, self.packed = {}, False
        if left is None:
            for before in self.ancestors(snapshot):
                lines = self.lines[before].items()
                self.lines[before] = {
                    log: replace(ln, loose=ln.loose | ln.tombs.keys(), mixed=True) for log, ln in lines
                }
            return
        lines = dict(self.lines[snapshot])
        for log, line in lines.items():
            if (cleaned := self._last_cleaning(snapshot, log)) is not None and self.parents[cleaned] not in left:
                moved = self._moved(self.rows[cleaned], self.rows[snapshot], log) & line.tombs.keys()
                lines[log] = replace(line, loose=line.loose | moved, untold=True)
        self.lines[snapshot] = lines

    def _last_cleaning(self, snapshot: int | None, log: int) -> int | None:
        passes = self.cleanings & set(self.passes.get(log, []))
        return next((s for s in self.ancestors(snapshot) if s in passes), None)

    def _moved(self, before: Rows, after: Rows, log: int) -> set[int]:
        """Rows of a log that stand in other files than before."""
        return {row.rid for row in after.log(log) if after.file[row.rid] != before.file.get(row.rid)}

    def resumed(self, snapshot: int | None, log: int, now: int) -> None:
        """A person has resumed a log, which undoes what passes by a clock ahead did; a rollback does not undo that."""
        for before in self.ancestors(snapshot):
            line = self.lines[before].get(log, Line())
            self._uncover(before, log, {rid for rid, (_, at) in line.tombs.items() if at > now})

    def forgotten(self, snapshot: int | None, log: int, undone: int | None) -> None:
        """A person went back to where no pass is left that tells what was known of a log.

        Args:
            snapshot: where they went back to.
            log: of the table.
            undone: the snapshot of the last pass, of which the table's property tells.
        """
        line = self.lines[snapshot].get(log, Line())
        self._uncover(snapshot, log, set(line.tombs))
        line = self.lines[snapshot][log]
        deleted = self._deleted_unseen(snapshot, log, undone, line)
        gone = {} if log in self.trusted else {key: at for key, at in line.gone.items() if key not in deleted}
        self.lines[snapshot] = {**self.lines[snapshot], log: replace(line, floor=None, gone=gone)}

    def _deleted_unseen(self, snapshot: int | None, log: int, undone: int | None, line: Line) -> set[str | None]:
        """Keys of rows that others deleted before the undone pass read the table, and that no pass had seen.

        A limit that docs/limits.md names: they count as seen. Where all rows had been replaced hardpack knows better.
        """
        if undone not in self.rows or snapshot not in self.ancestors(undone):
            return set()
        read, here = self.rows[self.parents[undone]].shown, self.rows[snapshot].log(log)
        if not any(row.rid in read for row in here):
            return set()
        return {row.key for row in here if row.rid not in line.seen and row.rid not in read}

    def _uncover(self, snapshot: int | None, log: int, rids: set[int]) -> None:
        line = self.lines[snapshot].get(log, Line())
        tombs = {rid: at for rid, at in line.tombs.items() if rid not in rids}
        horizons = {rid: at for rid, at in line.horizons.items() if rid not in rids}
        after = replace(line, tombs=tombs, horizons=horizons, undone=line.undone | rids)
        self.lines[snapshot] = {**self.lines[snapshot], log: after}

    def snapshot(
        self, number: int, parent: int | None, rows: Rows, landed: Pass | None, replaces: bool = False
    ) -> None:
        """A new snapshot, in the order in which they were made.

        Args:
            number: its id.
            parent: the id of the one before.
            rows: what it shows.
            landed: when hardpack made it.
            replaces: whether others made it and say that it changes no row.
        """
        before = self.rows[parent]
        self.rows[number], self.parents[number] = rows, parent
        lines = dict(self.lines[parent])
        if landed is None:
            if any(rows.file.get(rid) != path for rid, path in before.file.items()):
                # a file may have rows of both topics now, which only a commit that changes no row tells
                self.newer, self.packed = self.newer if replaces else {}, replaces
            for log, line in lines.items():
                # rows that wait in files of several logs are back after a split
                had = [r for r in before.shown.values() if r.log == log]
                has = any(r.log == log for r in rows.shown.values())
                gone = not any(r.rid in rows.shown for r in had) and (had or not has)
                if gone or _looks_new(before, rows, log):
                    lines[log] = Line(covered=line.covered)
                    continue
                mixed = line.mixed or _mixes(before, rows, log, line)
                # a row that was taken and is picked again comes as any other
                line = lines[log] = replace(line, mixed=mixed, seen=line.seen - (rows.of.keys() - before.shown.keys()))
                if not replaces or line.untold:
                    again = {r.offset for r in rows.log(log) if r.rid not in before.of}
                    moved = self._moved(before, rows, log)
                    loose = {rid for rid in line.tombs if rid in rows.of and rows.of[rid].offset in again}
                    lines[log] = replace(
                        line,
                        loose=line.loose | loose | moved & line.tombs.keys(),
                        rewritten=line.rewritten | moved if not replaces else line.rewritten,
                        updated=line.updated | _in_place(before, rows, log),
                    )
        else:
            lines = self._judge(landed, before, rows, lines)
        self.lines[number] = lines

    def _judge(self, landed: Pass, before: Rows, after: Rows, lines: dict[int, Line]) -> dict[int, Line]:
        must(landed.base in self.ancestors(landed.parent), "base-lost",
             f"a commit of phase {landed.phase} landed on a history that its base is not part of")  # fmt: skip
        new = after.of.keys() - before.of.keys()
        must(not new, "I2", f"a pass made {len(new)} rows visible that were not")
        changed = [r for rid, r in after.of.items() if before.of[rid] != r]
        must(not changed, "I2", f"a pass changed a kept row at offset {changed[0].offset if changed else 0}")
        base = self.rows[landed.base]
        removed = [r for rid, r in before.of.items() if rid not in after.of]
        concurrent = [r for r in removed if r.rid not in base.of]
        must(not concurrent, "I7", f"{len(concurrent)} rows of a concurrent append are gone")
        self.cleanings |= {landed.snapshot} if landed.phase == "one" else set()
        for log in landed.checkpoints:
            self.passes.setdefault(log, []).append(landed.snapshot)
        self.removed |= {r.rid for r in removed}
        for log in {r.log for r in removed} | set(landed.checkpoints):
            self._untouchable(landed, log)
        for log in sorted({r.log for r in removed}):
            gone = [r for r in removed if r.log == log]
            rules.of_two_topics(gone, base, self.newer.get(log, frozenset()))
            judge = {"one": rules.phase_one, "two": rules.phase_two, "retention": rules.retention}[landed.phase]
            judge(gone, base, after, landed, lines.get(log, Line()))
        for log, checkpoint in landed.checkpoints.items():
            if landed.phase == "one":
                lines[log] = self._cleaned(landed, log, checkpoint, base, after, lines.get(log, Line()))
        if landed.phase == "two":
            for row in removed:
                line = lines[row.log]
                gone = {**line.gone, row.key: max(row.offset, line.gone.get(row.key, -1))}
                lines[row.log] = replace(line, gone=gone)
        return lines

    def _untouchable(self, landed: Pass, log: int) -> None:
        said = self.said.get(log)
        must(not self.paused.get(log), "paused", f"phase {landed.phase} touched log {log}, which is paused")
        must(said is None or not said.uncleanable, "paused", f"phase {landed.phase} touched an uncleanable log, {log}")
        compacts = "compact" in landed.settings["cleanup.policy"]
        must(
            compacts or landed.phase == "retention", "policy", f"phase {landed.phase} touched log {log}, policy delete"
        )

    def _cleaned(self, landed: Pass, log: int, checkpoint: int, base: Rows, after: Rows, line: Line) -> Line:
        below = [r for r in base.log(log) if r.offset < checkpoint]
        latest: dict[str, int] = {}
        for row in after.log(log):
            if row.offset < checkpoint and row.rid in base.of and row.key is not None:
                # two rows at one offset are another matter: a person has to say which is the log's
                must(
                    latest.get(row.key, row.offset) == row.offset,
                    "I1",
                    f"two rows of a key below the checkpoint {checkpoint} of log {log}",
                )
                latest[row.key] = row.offset
        for row in below:
            risen = row.rid in after.of and row.rid not in line.seen and line.gone.get(row.key, -1) > row.offset
            risen &= row.rid not in line.updated
            must(not risen or row.value is None, "I9-risen",
                 f"log {log}: the row at {row.offset} of a key whose tombstone is gone is live and clean")  # fmt: skip
        copied = [r for r in base.log(log) if r.offset < max(checkpoint, landed.copied[log])]
        due = min(LONG_MAX - 1, landed.clock + landed.settings["delete.retention.ms"])
        known = line.tombs.keys() | line.undone
        tombs = (r.rid for r in copied if r.value is None and r.key is not None and r.rid not in known)
        # a tombstone that is delivered again, or written anew as it was, is the one that was covered before
        places = {r.rid: (r.offset, r.key) for r in copied}
        # it is this pass that covers it, should one by a clock ahead be undone
        at = max(landed.clock, landed.time)
        fresh = {rid: (min(line.covered.get(places[rid], (due, at))[0], due), at) for rid in tombs}
        # what may have been written anew is dated once more by this pass's settings
        again = {rid: (min(line.tombs[rid][0], due), at) for rid in places.keys() & line.loose & line.tombs.keys()}
        return replace(
            line,
            untold=False,
            mixed=False,
            rewritten=frozenset(),
            bounded=landed.settings["log.cleaner.dedupe.buffer.size"] is not None,
            seen=line.seen | {r.rid for r in below},
            tombs={**line.tombs, **again, **fresh},
            covered={**line.covered, **{places[rid]: dated for rid, dated in fresh.items()}},
        )

    def settle(
        self, current: int | None, said: dict[int, Said], same: bool, settings: Mapping[str, Any], clock: int
    ) -> None:
        """What hardpack says once a step is over.

        Args:
            current: the table's snapshot now.
            said: by log.
            same: whether the step may neither forget nor move what hardpack knows.
            settings: in force now.
            clock: as hardpack's machine has it.
        """
        rows, lines = self.rows[current], dict(self.lines[current])
        self.newer = {log: new for log, new in self.newer.items() if new <= rows.of.keys()}
        for log, now in said.items():
            line, before = lines.get(log, Line()), self.said.get(log)
            if same and before:
                rules.remembered(log, before, now, rows)
            unseen = [r for r in rows.log(log) if 0 <= r.offset < now.first_dirty and r.rid not in line.seen]
            must(not unseen or now.refused, "I9",
                 f"log {log}: no pass saw the row at {unseen[0].offset if unseen else 0}, yet it counts as clean "
                 f"(first dirty {now.first_dirty})")  # fmt: skip
            if self.tells_late:
                rules.refused_for_late_rows(log, now, rows, line)
            # while it has no row there is nothing that anybody could have cleaned
            told = now.held or not now.uncleanable or not rows.log(log)
            must(told, "held", f"log {log} is marked, and no alert tells of it")
            rules.dirty_enough(log, now, rows, settings, line.bounded, clock)
            rules.due_in_time(log, now, rows, settings, clock)
            back = line.floor is not None and (now.checkpoint is None or now.checkpoint < line.floor)
            must(not back, "I6", f"log {log}: the checkpoint went back from {line.floor} to {now.checkpoint}")
            # of a log whose clean rows are gone status shows where it begins
            shown = now.checkpoint if any(r.offset < (now.checkpoint or 0) for r in rows.log(log)) else None
            floor = max((end for end in (line.floor, shown) if end is not None), default=None)
            lines[log] = replace(line, floor=floor, horizons=rules.horizons(log, line, now, rows))
        self.lines[current], self.said = lines, said


def _in_place(before: Rows, after: Rows, log: int) -> frozenset[int]:
    """Rows of a log that took the place of others at their offsets."""
    left = {row.offset for row in before.shown.values() if row.log == log and row.rid not in after.shown}
    return frozenset(
        r.rid for r in after.shown.values() if r.log == log and r.rid not in before.shown and r.offset in left
    )


def _mixes(before: Rows, after: Rows, log: int, line: Line) -> bool:
    """Tell whether others may have kept or taken late rows, as far as metadata goes.

    They are hidden in their file, or have left with it while a new one spans their offsets.
    """
    came = [r for r in before.log(log) if r.rid not in line.seen and r.offset < (line.floor or 0)]
    left = [r for r in came if after.file.get(r.rid) != before.file[r.rid]]
    if any(before.file[r.rid] in after.sizes for r in left):
        return True
    late = [r.offset for r in left]
    old, spans = set(before.file.values()), dict[str, list[int]]()
    for row in after.log(log):
        if after.file[row.rid] not in old:
            spans.setdefault(after.file[row.rid], []).append(row.offset)
    return any(min(found) <= offset <= max(found) for found in spans.values() for offset in late)


def _looks_new(before: Rows, after: Rows, log: int) -> bool:
    """Tell whether more rows replaced all files of a log, so that nobody knows which were there before."""
    had, has = before.log(log), after.log(log)
    if any(row.log == log for row in before.waiting.values()):
        # among rows that waited in files of several logs may be those that were there before
        return False
    if not had or {before.file[r.rid] for r in had} & {after.file[r.rid] for r in has}:
        return False
    low, high = min(r.offset for r in had), max(r.offset for r in had)
    return sum(low <= r.offset <= high for r in has) > len(had)
