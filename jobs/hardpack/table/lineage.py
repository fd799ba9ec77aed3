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
        self._looked_up: dict[tuple[str, int, Partition, int, int, int], Origin] = {}

    def origin(self, log: Partition, file: DataFile, state: LogState) -> Origin:
        """Tells how a file's rows came to be.

        Args:
            log: the file's.
            file: a data file of the current snapshot or of one before it.
            state: of the log; one that no pass has left makes every row unseen.
        """
        # rewrites of rewrites may be many, so that each is looked up once the files that it took are known
        asked = [file]
        while (found := self._known(log, file, state)) is None:
            one = asked[-1]
            unknown = [gone for gone in self._made_of(log, one) if self._known(log, gone, state) is None]
            if unknown:
                asked += unknown
            else:
                self._looked_up[_named(log, one, state)] = self._look_up(log, one, state)
                asked.pop()
        return found

    def _known(self, log: Partition, file: DataFile, state: LogState) -> Origin | None:
        """Returns what the state tells of a file, or what was looked up before; None where it has to be looked up."""
        if was_seen(file, state):
            return SEEN
        read, told_to = _read(state)[0], state.unseen.told_to if state.unseen else 0
        if file.came <= told_to:
            # the state holds what there was to tell
            late, arrived = (state.unseen.late, state.unseen.arrived) if state.unseen else (None, None)
            fresh = late is not None or covered_to(state) >= (state.checkpoint or 0)
            return replace(SEEN, late=_within(file, [late]), arrived=_within(file, [arrived]), fresh=fresh)
        if file.sequence < file.came and file.sequence <= read:
            # a rewrite that says of itself that its rows were there by then
            return SEEN
        return self._looked_up.get(_named(log, file, state))

    def _made_of(self, log: Partition, file: DataFile) -> Sequence[DataFile]:
        """Returns the files that left by the commit that brought a file, all of them older."""
        snapshot = self.commits.get(file.came)
        if snapshot is None or snapshot.summary is None or is_append(snapshot):
            return ()
        return [gone for gone in self.changed(snapshot, log).removed if gone.came < file.came]

    def _look_up(self, log: Partition, file: DataFile, state: LogState) -> Origin:
        """Tells of a file of which the state says nothing, when those that it was made of are known."""
        snapshot = self.commits.get(file.came)
        new = Origin(False, file.min_offset, file.min_offset, True, file.came)
        if snapshot is None:
            # nobody tells any more, so the state is kept and the rows are cleaned again
            return Origin(None, file.min_offset, file.min_offset, True)
        if snapshot.summary is None or is_append(snapshot):
            return new
        if file.trouble:
            return self._of_no_one_log(log, file, state, snapshot)
        change = self.changes(snapshot).get(log)
        if change is None:
            return SEEN if is_ours(snapshot) else new
        if split_all_rows(snapshot):
            # appends had brought them in files of several logs
            return replace(new, since=min((f.came for f in change.removed), default=file.came))
        before = [self.origin(log, gone, state) for gone in change.removed if gone.came < file.came]
        if is_ours(snapshot):
            # phase two, which leaves late rows to phase one
            return _as_before(file, before) if before else SEEN
        if any(f.trouble for f in change.removed) or (not change.removed and change.deleted is None):
            return self._of_no_one_log(log, file, state, snapshot)
        changed = snapshot.summary.operation != Operation.REPLACE
        if not (_is_rewrite(change, file) if changed else _is_no_larger(change)):
            return _of_grown(file, change, before) if changed and _is_grown(change) else new
        if not changed:
            return _as_before(file, before)
        arrived = file.min_offset if _may_bring_more(change) else _within(file, [o.arrived for o in before])
        since = min([o.since for o in before], default=file.came)
        known, on_read = _told(before) if before else ON_READ
        return Origin(known, file.min_offset, arrived, True, since, on_read)

    def _of_no_one_log(self, log: Partition, file: DataFile, state: LogState, made_by: Snapshot) -> Origin:
        """Tells how rows came to be of a file into which a rewrite may have put those of several logs."""
        change = self.changed(made_by, log)
        put = [(gone, self.origin(log, gone, state)) for gone in change.removed if gone.came < file.came]
        since = min([file.came, *(o.since for _, o in put)])
        known, on_read = _told([o for _, o in put])
        if change.deleted != 0 and (on_read or known is False):
            known, on_read = ON_READ
        late: int | None = file.min_offset
        arrived: int | None = file.min_offset
        if put and not file.trouble and self._changed_no_row(made_by):
            # no row of a file of several logs lies before its first, whichever log it is of
            late = _within(file, [gone.min_offset if gone.trouble else o.late for gone, o in put])
            arrived = _within(file, [gone.min_offset if gone.trouble else o.arrived for gone, o in put])
        # of files that left passes may have known other rows than these
        return Origin(None if known else known, late, arrived, True, since, on_read)

    def _changed_no_row(self, snapshot: Snapshot) -> bool:
        """Returns whether a snapshot says so of itself, and brings no more rows than it takes, whosever they are."""
        if snapshot.summary is None or snapshot.summary.operation != Operation.REPLACE:
            return False
        changes = self.changes(snapshot).values()
        came = {f.path: f.rows for change in changes for f in change.added}
        left = {f.path: f.rows for change in changes for f in change.removed}
        return sum(came.values()) <= sum(left.values())

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


def _read(state: LogState) -> tuple[int, int]:
    """Returns the sequence numbers of what a log's last pass read and of what it made, 0 where nothing tells."""
    return state.seen or ((state.snapshot or (0, 0))[1], 0)


def _named(log: Partition, file: DataFile, state: LogState) -> tuple[str, int, Partition, int, int, int]:
    """Names a question: the answer depends on nothing else of the state."""
    return file.path, file.came, log, *_read(state), state.unseen.told_to if state.unseen else 0


def _as_before(file: DataFile, before: Sequence[Origin]) -> Origin:
    """Tells of a file whose rows are as they were in those that it was made of, at least one."""
    late, arrived = (_within(file, found) for found in ([o.late for o in before], [o.arrived for o in before]))
    known, on_read = _told(before)
    return Origin(known, late, arrived, any(o.fresh for o in before), min(o.since for o in before), on_read)


def _is_grown(change: Change) -> bool:
    """Returns whether rows that were there before stand in new files with some behind them, as a MERGE leaves them.

    They begin no earlier than those that left and before these end in time, and no more came than there are offsets
    behind these. A topic that was made anew begins when the old one has ended.
    """
    if not change.removed or min(f.min_offset for f in change.added) < _span(change)[0]:
        return False
    first = min((f.min_timestamp for f in change.added if f.min_timestamp is not None), default=None)
    last = max((f.max_timestamp for f in change.removed if f.max_timestamp is not None), default=None)
    overlaps = last is None or (first is not None and first <= last)
    return overlaps and _growth(change) <= _behind(change)


def _of_grown(file: DataFile, change: Change, before: Sequence[Origin]) -> Origin:
    """Tells of a file of such a change; where rows may lie between others, nobody can tell that they do not."""
    arrived: int | None = file.min_offset
    if _growth(change) == _behind(change):
        # behind these files, which need not be behind the log
        arrived = _within(file, [max(f.max_offset for f in change.removed) + 1, *(o.arrived for o in before)])
    known, on_read = _told(before)
    return Origin(known, file.min_offset, arrived, True, min(o.since for o in before), on_read)


def _growth(change: Change) -> int:
    """Returns how many more rows came than were to be seen in the files that left."""
    return sum(f.rows for f in change.added) - sum(f.rows for f in change.removed) + change.hidden


def _behind(change: Change) -> int:
    """Returns how many offsets lie behind the files that left, up to the last that came."""
    return max(f.max_offset for f in change.added) - max(f.max_offset for f in change.removed)


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
