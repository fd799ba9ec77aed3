"""How the rows of a log's files came to be: seen by its last pass, put there since, or rewritten by others.

A row's offset does not tell when it came; the sequence number of the commit that brought its file does. What another
writer rewrote is looked up in the snapshot that did it: the files that left and the files that came are compared, so
that a bin-pack of seen rows brings nothing new, and late rows stay late through it. What no snapshot tells any more
counts as new: to clean rows again is safe, to pass over them is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hardpack.rules.horizons import covered_to
from hardpack.rules.model import DataFile, LogState, Partition
from hardpack.rules.times import LONG_MAX
from hardpack.table.history import ancestors, is_append, is_ours, split_all_rows
from hardpack.table.snapshot_change import Change

Changes = Callable[[Snapshot], Mapping[Partition | None, Change]]
"""What a snapshot did to each log, under None to those that it does not name; as it never changes, it may be kept."""
MOST_STEPS = 150
"""Rewrites of rewrites that are followed back before a file counts as one of which nobody can tell."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a file's rows. Offsets; None where there is no such row."""

    known: bool | None = True
    """Whether rows that the last pass knew are among them; None where no snapshot tells any more."""
    late: int | None = None
    """The lowest that the pass has not seen as it is now."""
    arrived: int | None = None
    """The lowest of these that is no rewrite of a row that was there before."""
    fresh: bool = False
    """Whether tombstones may be among them that no pass gave a horizon."""
    since: int = 0
    """Sequence number of the commit since which rows of the file are in the log, 0 where passes have seen them."""
    on_read: bool = False
    """Whether nothing but this hides that a pass knew them: they may be new versions of rows whose files had stayed, as
    a merge-on-read UPDATE leaves them. `known` is None then."""


SEEN = Origin()
ON_READ = None, True
"""`known` and `on_read` of what a merge-on-read UPDATE has put beside the files that it left."""


def was_seen(file: DataFile, state: LogState) -> bool:
    """Returns whether the log's last pass read a file's commit or made it; what came while it ran it has not seen.

    Args:
        file: one of the log's.
        state: of the log; one that no pass has left has seen nothing.
    """
    read, made = state.seen or ((state.snapshot or (0, 0))[1], 0)
    return file.came <= read or file.came == made


class Lineage:
    """The commits that led to the current snapshot, looked through for some logs.

    Args:
        table: as it was loaded.
        changes: what a snapshot did.
    """

    def __init__(self, table: Table, changes: Changes) -> None:
        self.commits = {s.sequence_number or 0: s for s in ancestors(table)}
        self.oldest = min(self.commits, default=None)
        self.changes = changes
        self._known: dict[tuple[str, int, Partition, int, int, int], Origin] = {}

    def origin(self, log: Partition, file: DataFile, state: LogState, steps: int = 0) -> Origin:
        """Tells how a file's rows came to be.

        Args:
            log: the file's.
            file: a data file of the current snapshot or of one before it.
            state: of the log; one that no pass has left makes every row unseen.
            steps: how many rewrites lie between it and the file that was asked about.
        """
        if was_seen(file, state):
            return SEEN
        read, made = state.seen or ((state.snapshot or (0, 0))[1], 0)
        told_to = state.unseen.told_to if state.unseen else 0
        if file.came <= told_to:
            # the state holds what there was to tell
            late, arrived = (state.unseen.late, state.unseen.arrived) if state.unseen else (None, None)
            fresh = late is not None or covered_to(state) >= (state.checkpoint or 0)
            return replace(SEEN, late=_within(file, [late]), arrived=_within(file, [arrived]), fresh=fresh)
        if file.sequence < file.came and file.sequence <= read:
            # a rewrite that says of itself that its rows were there by then
            return SEEN
        at = file.path, file.came, log, read, made, told_to
        if at not in self._known:
            self._known[at] = self._looked_up(log, file, state, steps)
        return self._known[at]

    def _looked_up(self, log: Partition, file: DataFile, state: LogState, steps: int) -> Origin:
        snapshot = self.commits.get(file.came)
        new = Origin(False, file.min_offset, file.min_offset, True, file.came)
        if snapshot is None or steps >= MOST_STEPS:
            # nobody tells any more, so the state is kept and the rows are cleaned again
            return Origin(None, file.min_offset, file.min_offset, True)
        if is_ours(snapshot):
            return SEEN
        if snapshot.summary is None or is_append(snapshot):
            return new
        if file.trouble:
            return self._of_no_one_log(log, file, state, steps, snapshot)
        change = self.changes(snapshot).get(log)
        if change is None:
            return new
        if split_all_rows(snapshot):
            # appends had brought them in files of several logs
            return replace(new, since=min((f.came for f in change.removed), default=file.came))
        if any(f.trouble for f in change.removed) or (not change.removed and change.deleted is None):
            return self._of_no_one_log(log, file, state, steps, snapshot)
        before = [self.origin(log, gone, state, steps + 1) for gone in change.removed]
        changed = snapshot.summary.operation != Operation.REPLACE
        if not (_is_rewrite(change, file) if changed else _is_no_larger(change)):
            return new
        late = file.min_offset if changed else _within(file, [o.late for o in before])
        more = changed and _may_bring_more(change)
        arrived = file.min_offset if more else _within(file, [o.arrived for o in before])
        since = min([o.since for o in before], default=file.came)
        known, on_read = _told(before) if before else ON_READ
        return Origin(known, late, arrived, changed or any(o.fresh for o in before), since, on_read)

    def _of_no_one_log(self, log: Partition, file: DataFile, state: LogState, steps: int, made_by: Snapshot) -> Origin:
        """Tells how rows came to be of a file into which a rewrite may have put those of several logs."""
        change = self.changed(made_by, log)
        put = [self.origin(log, gone, state, steps + 1) for gone in change.removed]
        since = min([file.came, *(o.since for o in put)])
        known, on_read = _told(put)
        if change.deleted != 0 and (on_read or known is False):
            known, on_read = ON_READ
        # of files that left passes may have known other rows than these
        return Origin(None if known else known, file.min_offset, file.min_offset, True, since, on_read)

    def changed(self, snapshot: Snapshot, log: Partition) -> Change:
        """Returns what a snapshot did to a log, whether or not one of its files names it."""
        changes = self.changes(snapshot)
        return changes.get(log, changes[None])

    def replaced(
        self, log: Partition, files: Sequence[DataFile], state: LogState, waiting: Sequence[DataFile] = ()
    ) -> bool:
        """Returns whether others replaced a log.

        They have when all rows that its last pass knew left before any of those came that are there now. Rows of
        which nobody can tell keep the state while they are there, and prove nothing when they leave: others that came
        before that may have stood beside known ones.

        Args:
            log: the log.
            files: its data files now.
            state: its state.
            waiting: files that may hold rows of several logs, and of this one too, marked by `DataFile.of_no_one_log`;
                there is at least one file in all.
        """
        since = LONG_MAX
        for file in chain(files, waiting):
            origin = self.origin(log, file, state)
            if origin.known is not False and not origin.on_read:
                return False
            since = min(since, origin.since)
        for sequence, snapshot in sorted(self.commits.items(), reverse=True):
            if sequence <= (state.seen or (0, 0))[0] or is_append(snapshot) or is_ours(snapshot):
                continue
            known = {self.origin(log, f, state).known for f in self.changed(snapshot, log).removed}
            if True in known or (None in known and since < sequence):
                # the last commit that took known rows, as far as anybody can tell
                return since >= sequence
        return False


def _told(before: Sequence[Origin]) -> tuple[bool | None, bool]:
    """Returns `known` and `on_read` of what some files became: what most keeps the state counts."""
    told = {(o.known, o.on_read) for o in before}
    return next((answer for answer in ((True, False), (None, False), ON_READ) if answer in told), (False, False))


def _is_no_larger(change: Change) -> bool:
    """Returns whether a commit that says of itself that it changes no row brings no more rows than it takes."""
    return 0 < sum(f.rows for f in change.added) <= sum(f.rows for f in change.removed)


def _is_rewrite(change: Change, file: DataFile) -> bool:
    """Returns whether a file holds rows that were there before its commit, as far as counts and bounds can tell.

    The rows of the files that came beside those that left must be no more than these, and lie within their offsets and
    times.
    """
    if not change.removed:
        # an update that leaves the old rows' files in place names them in deletes
        return change.deleted is not None and change.deleted >= sum(f.rows for f in change.added)
    beside = _beside(change)
    low, high = _span(change)
    return (
        any(f.path == file.path for f in beside)
        and all(low <= f.min_offset and f.max_offset <= high for f in beside)
        and sum(f.rows for f in beside) <= sum(f.rows for f in change.removed)
        and _times_within(beside, change.removed)
    )


def _may_bring_more(change: Change) -> bool:
    """Returns whether a rewrite has more rows than were to be seen in the files that left, some of them hidden."""
    if not change.hidden:
        return False
    return sum(f.rows for f in _beside(change)) > sum(f.rows for f in change.removed) - change.hidden


def _beside(change: Change) -> list[DataFile]:
    """Returns the files that came among the offsets of those that left, at least one."""
    low, high = _span(change)
    return [f for f in change.added if f.min_offset <= high and f.max_offset >= low]


def _span(change: Change) -> tuple[int, int]:
    return min(f.min_offset for f in change.removed), max(f.max_offset for f in change.removed)


def _times_within(inside: Sequence[DataFile], removed: Sequence[DataFile]) -> bool:
    early = [f.min_timestamp for f in removed if f.min_timestamp is not None]
    late = [f.max_timestamp for f in removed if f.max_timestamp is not None]
    if not early or not late:
        return all(f.min_timestamp is None for f in inside)
    return all(
        (f.min_timestamp is None or f.min_timestamp >= min(early))
        and (f.max_timestamp is None or f.max_timestamp <= max(late))
        for f in inside
    )


def _within(file: DataFile, offsets: Sequence[int | None]) -> int | None:
    """Returns the lowest of some offsets as far as the file's rows can be those; None when they cannot."""
    there = [o for o in offsets if o is not None and o <= file.max_offset]
    return max(min(there), file.min_offset) if there else None
