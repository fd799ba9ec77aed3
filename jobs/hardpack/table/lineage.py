"""How the rows of a log's files came to be: seen by its last pass, put there since, or rewritten by others.

A row's offset does not tell when it came; the sequence number of the commit that brought its file does. What another
writer rewrote is looked up in the snapshot that did it: the files that left and the files that came are compared, so
that a bin-pack of seen rows brings nothing new, and late rows stay late through it. What no snapshot tells any more
counts as new: to clean rows again is safe, to pass over them is not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hardpack.rules.horizons import Range, covered_to
from hardpack.rules.model import DataFile, LogState, Partition, SeenCommits
from hardpack.rules.times import LONG_MAX
from hardpack.table.history import ancestors, is_append, is_hardpacks, split_all_rows
from hardpack.table.snapshot_change import Change

Changes = Callable[[Snapshot], Mapping[Partition | None, Change]]
"""What a snapshot did to each log, under None to those that it does not name; as it never changes, it may be kept."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a file's rows. Offsets; None where there is no such row."""

    known: bool | None = True
    """Whether rows that the last pass knew are among them; None where no snapshot tells any more."""
    unseen_from: int | None = None
    """The lowest that the pass has not seen as it is now."""
    late_from: int | None = None
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
    return state.seen_commits.holds(file.file_sequence_number)


_Question = tuple[str, int, Partition, SeenCommits, int]
"""Path of a file, its commit, its log, and of the log's state what an answer depends on."""


class _Late:
    """Offsets between which late rows lie, of several files.

    Args:
        ranges: the first and the last of each.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        ordered = sorted(ranges)
        self._firsts = [first for first, _ in ordered]
        self._ends = list(accumulate((last for _, last in ordered), max))

    def lowest_in(self, file: DataFile) -> int | None:
        """Returns the lowest offset of late rows that a file may hold; None where it can hold none."""
        at = bisect_right(self._firsts, file.min_offset)
        if at and self._ends[at - 1] >= file.min_offset:
            return file.min_offset
        return self._firsts[at] if at < len(self._firsts) and self._firsts[at] <= file.max_offset else None


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is known of the rows that one commit took from a log; None where it took none."""

    all: Origin | None
    late: _Late
    """Where the late ones are among them, those of files of several logs left out."""
    apart: Origin | None
    """What is known of them where a row that a file of several logs had counts as late from that file's first on."""
    late_apart: _Late
    fresh_below: bool
    """Whether tombstones without a horizon may be among those that passes have seen."""

    def in_file(self, file: DataFile, apart: bool = False) -> Origin:
        """Tells of a file whose rows are as they were in those that it was made of; a pass made one of none."""
        before, late = (self.apart, self.late_apart) if apart else (self.all, self.late)
        if before is None:
            return SEEN
        unseen_from = _within(file, before.unseen_from)
        fresh = before.fresh and (unseen_from is not None or self.fresh_below)
        return replace(before, unseen_from=unseen_from, late_from=late.lowest_in(file), fresh=fresh)


class Lineage:
    """The commits that led to the current snapshot, looked through for some logs.

    Args:
        table: as it was loaded.
        changes: what a snapshot did.
    """

    def __init__(self, table: Table, changes: Changes) -> None:
        self.commits = {s.sequence_number or 0: s for s in ancestors(table)}
        self.oldest, self.newest = min(self.commits, default=None), max(self.commits, default=0)
        self.changes = changes
        self._looked_up: dict[_Question, Origin] = {}
        self._taken: dict[_Question, _Taken] = {}
        self._left_later: dict[tuple[Partition, int], list[DataFile]] = {}
        self._changed_no_row: dict[int, bool] = {}

    def origin(self, log: Partition, file: DataFile, state: LogState) -> Origin:
        """Tells how a file's rows came to be.

        Args:
            log: the file's.
            file: a data file of the current snapshot or of one before it.
            state: of the log; one that no pass has left makes every row unseen.
        """
        # rewrites of rewrites may be many, so that each is looked up once the files that it took are known
        asked = [file]
        while (origin := self._known(log, file, state)) is None:
            one = asked[-1]
            if self._known(log, one, state) is not None:
                asked.pop()
            elif unknown := self._unknown_before(log, one, state):
                asked += unknown
            else:
                self._looked_up[_question(one.path, one.file_sequence_number, log, state)] = self._look_up(
                    log, one, state
                )
        return origin

    def _known(self, log: Partition, file: DataFile, state: LogState) -> Origin | None:
        """Returns what the state tells of a file, or what was looked up before; None where it has to be looked up."""
        if was_seen(file, state):
            return SEEN
        read, known_to = state.seen_commits.read, state.unseen.known_to if state.unseen else 0
        if file.file_sequence_number <= known_to and file.file_sequence_number not in self.commits:
            # the state holds what there was to tell, but of all of the log's rows together
            unseen_from, late_from = (
                (state.unseen.unseen_from, state.unseen.late_from) if state.unseen else (None, None)
            )
            fresh = unseen_from is not None or covered_to(state) >= (state.checkpoint or 0)
            return replace(
                SEEN, unseen_from=_within(file, unseen_from), late_from=_within(file, late_from), fresh=fresh
            )
        if file.data_sequence_number < file.file_sequence_number and file.data_sequence_number <= read:
            # a rewrite that says of itself that its rows were there by then
            return SEEN
        origin = self._looked_up.get(_question(file.path, file.file_sequence_number, log, state))
        if origin and file.file_sequence_number <= known_to:
            # the log went on when that was recorded, so that passes count as having known the rows it had then
            return replace(origin, known=True, since=0, on_read=False)
        return origin

    def _unknown_before(self, log: Partition, file: DataFile, state: LogState) -> list[DataFile]:
        """Returns the files that left by the commit that brought one, as far as they have to be looked up first."""
        snapshot = self.commits.get(file.file_sequence_number)
        if snapshot is None or snapshot.summary is None or is_append(snapshot):
            return []
        if _question("", file.file_sequence_number, log, state) in self._taken:
            return []
        older = self._older(log, snapshot) or self._older_that_left_later(log, snapshot)
        return [gone for gone in older if self._known(log, gone, state) is None]

    def _older(self, log: Partition, snapshot: Snapshot) -> list[DataFile]:
        """Returns the files that a snapshot took from a log; one that is no older is none that could be told of."""
        sequence = snapshot.sequence_number or 0
        return [gone for gone in self.changed(snapshot, log).removed if gone.file_sequence_number < sequence]

    def _older_that_left_later(self, log: Partition, snapshot: Snapshot) -> list[DataFile]:
        """Returns the files of a log that a snapshot found, whether or not it hid rows of them, and later ones took."""
        sequence = snapshot.sequence_number or 0
        if (log, sequence) not in self._left_later:
            later = [s for number, s in self.commits.items() if number > sequence and not is_append(s)]
            gone = [file for s in later for file in self.changed(s, log).removed]
            self._left_later[log, sequence] = [file for file in gone if file.file_sequence_number < sequence]
        return self._left_later[log, sequence]

    def packed(self, log: Partition, state: LogState) -> tuple[DataFile, ...]:
        """Returns the files of a log that left since its last pass by commits of others that change no row."""
        return tuple(
            file
            for sequence, snapshot in self.commits.items()
            if not state.seen_commits.by_passes(sequence)
            and snapshot.summary
            and snapshot.summary.operation == Operation.REPLACE
            and not is_hardpacks(snapshot)
            for file in self.changed(snapshot, log).removed
            if not file.trouble
        )

    def _left_behind(self, log: Partition, snapshot: Snapshot, state: LogState) -> Origin | None:
        """Returns what is known of the files that a snapshot found and later ones took; None where there were none."""
        gone = [(f, self.origin(log, f, state)) for f in self._older_that_left_later(log, snapshot)]
        return _together([replace(o, late_from=f.min_offset) if f.trouble else o for f, o in gone])

    def _taken_by(self, log: Partition, snapshot: Snapshot, state: LogState) -> _Taken:
        """Returns what is known of the rows that a snapshot took, all together; a commit may have taken many files."""
        question = _question("", snapshot.sequence_number or 0, log, state)
        if question not in self._taken:
            left = [(gone, self.origin(log, gone, state)) for gone in self._older(log, snapshot)]
            emptied = self.changed(snapshot, log).emptied
            # no row of a file of several logs lies before its first, whichever log it is of
            apart = [replace(o, unseen_from=f.min_offset, late_from=f.min_offset) if f.trouble else o for f, o in left]
            # rows of which others had taken all before are in none of the files that came
            ends = [-1 if f.path in emptied else LONG_MAX if f.trouble else f.max_offset for f, _ in left]
            self._taken[question] = _Taken(
                _together([o for _, o in left]), _late_in([o for _, o in left], ends), _together(apart),
                _late_in(apart, ends), any(o.fresh and o.unseen_from is None for _, o in left),
            )  # fmt: skip
        return self._taken[question]

    def _look_up(self, log: Partition, file: DataFile, state: LogState) -> Origin:
        """Tells of a file of which the state says nothing, when those that it was made of are known."""
        snapshot = self.commits.get(file.file_sequence_number)
        new = Origin(False, file.min_offset, file.min_offset, True, file.file_sequence_number)
        if snapshot is None:
            # nobody tells any more, so the state is kept and the rows are cleaned again
            return Origin(None, file.min_offset, file.min_offset, True)
        if snapshot.summary is None or is_append(snapshot):
            return new
        if file.trouble:
            return self._of_no_one_log(log, file, state, snapshot)
        change = self.changes(snapshot).get(log)
        if change is None:
            return SEEN if is_hardpacks(snapshot) else new
        if split_all_rows(snapshot):
            # appends had brought them in files of several logs
            return replace(new, since=file.file_sequence_number if change.since is None else change.since)
        taken = self._taken_by(log, snapshot, state)
        before = taken.all
        if is_hardpacks(snapshot):
            # phase two or a portion, which leave late rows to the end of a phase one
            return taken.in_file(file)
        if change.in_trouble or (not change.removed and change.deleted is None):
            return self._of_no_one_log(log, file, state, snapshot)
        if snapshot.summary.operation == Operation.REPLACE:
            return taken.in_file(file) if before and change.is_no_larger else new
        if not before and change.rewrites(file):
            # the files in which the rows were may have left since, and with them whether they were late and since when
            known, on_read = ON_READ
            left = self._left_behind(log, snapshot, state) or Origin(since=file.file_sequence_number)
            return Origin(known, file.min_offset, _within(file, left.late_from), True, left.since, on_read)
        return (_of_update(file, change, before, taken.late) if before else None) or new

    def _of_no_one_log(self, log: Partition, file: DataFile, state: LogState, made_by: Snapshot) -> Origin:
        """Tells how rows came to be of a file into which a rewrite may have put those of several logs."""
        taken, deleted = self._taken_by(log, made_by, state), self.changed(made_by, log).deleted
        before = taken.all or Origin(False)
        known, on_read = before.known, before.on_read
        if deleted != 0 and (on_read or known is False):
            known, on_read = ON_READ
        since = min(file.file_sequence_number, before.since) if taken.all else file.file_sequence_number
        unseen_from: int | None = file.min_offset
        late_from: int | None = file.min_offset
        if taken.apart and not file.trouble and self._changes_no_row(made_by):
            own = taken.in_file(file, apart=True)
            unseen_from, late_from = own.unseen_from, own.late_from
        # of files that left passes may have known other rows than these
        return Origin(None if known else known, unseen_from, late_from, True, since, on_read)

    def _changes_no_row(self, snapshot: Snapshot) -> bool:
        """Returns whether a snapshot says so of itself, and brings no more rows than it takes, whosever they are."""
        if snapshot.summary is None or snapshot.summary.operation != Operation.REPLACE:
            return False
        if snapshot.snapshot_id not in self._changed_no_row:
            changes = self.changes(snapshot).values()
            came = {f.path: f.rows for change in changes for f in change.added}
            left = {f.path: f.rows for change in changes for f in change.removed}
            self._changed_no_row[snapshot.snapshot_id] = sum(came.values()) <= sum(left.values())
        return self._changed_no_row[snapshot.snapshot_id]

    def changed(self, snapshot: Snapshot, log: Partition) -> Change:
        """Returns what a snapshot did to a log, whether or not one of its files names it."""
        changes = self.changes(snapshot)
        return changes.get(log, changes[None])

    def replaced(
        self, log: Partition, files: Sequence[DataFile], state: LogState, waiting: Sequence[DataFile] = ()
    ) -> int | None:
        """Returns since which commit a log that others replaced has the rows of now; None where they have not.

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
                return None
            since = min(since, origin.since)
        for sequence, snapshot in sorted(self.commits.items(), reverse=True):
            if sequence <= (state.seen.read if state.seen else 0) or is_append(snapshot) or is_hardpacks(snapshot):
                continue
            known = {self.origin(log, f, state).known for f in self.changed(snapshot, log).removed}
            if True in known or (None in known and since < sequence):
                # the last commit that took known rows, as far as anybody can tell
                return since if since >= sequence else None
        return None


def _question(path: str, file_sequence_number: int, log: Partition, state: LogState) -> _Question:
    """Names a question: the answer depends on nothing else of the state."""
    return path, file_sequence_number, log, state.seen_commits, state.unseen.known_to if state.unseen else 0


def _together(origins: Sequence[Origin]) -> Origin | None:
    """Returns what is known of the rows of several files as one; None of no file."""
    if not origins:
        return None
    kinds = {(o.known, o.on_read) for o in origins}
    # what most keeps the state counts
    known, on_read = next((a for a in ((True, False), (None, False), ON_READ) if a in kinds), (False, False))
    unseen_from, late_from = (
        min((o for o in offsets if o is not None), default=None)
        for offsets in ([o.unseen_from for o in origins], [o.late_from for o in origins])
    )
    return Origin(known, unseen_from, late_from, any(o.fresh for o in origins), min(o.since for o in origins), on_read)


def _late_in(origins: Iterable[Origin], ends: Iterable[int]) -> _Late:
    """Returns where late rows are, given the last offset of each file; one that lies before them has none."""
    told = zip((o.late_from for o in origins), ends, strict=True)
    return _Late((first, end) for first, end in told if first is not None and first <= end)


def _of_update(file: DataFile, change: Change, before: Origin, late: _Late) -> Origin | None:
    """Tells of a file of a commit that changes rows; None where they are held to be others than were there."""
    if not change.rewrites(file):
        return _of_grown(file, change, before, late) if change.grows else None
    late_from = file.min_offset if change.may_bring_more else late.lowest_in(file)
    return replace(before, unseen_from=file.min_offset, late_from=late_from, fresh=True)


def _of_grown(file: DataFile, change: Change, before: Origin, late: _Late) -> Origin:
    """Tells of a file into which others put new rows beside old ones."""
    # where rows may lie between others, nobody can tell that they do not
    late_from: int | None = file.min_offset
    if change.grows_behind:
        # behind these files, which need not be behind the log
        froms = late.lowest_in(file), _within(file, change.last + 1)
        late_from = min((o for o in froms if o is not None), default=None)
    return replace(before, unseen_from=file.min_offset, late_from=late_from, fresh=True)


def _within(file: DataFile, offset: int | None) -> int | None:
    """Returns an offset, the lowest of some rows', as far as the file's rows can be those; None when they cannot."""
    return None if offset is None or offset > file.max_offset else max(offset, file.min_offset)
