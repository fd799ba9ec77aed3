"""How the rows of a log's files came to be: seen by its last pass, added since, or rewritten by another writer.

A row's offset does not tell when the row came; the sequence number of the commit that brought its file does. A rewrite
by another writer is looked up in the snapshot that made it: its removed and its added files are compared. So a bin-pack
of seen rows brings nothing new, and late rows stay late through it. What no snapshot tells any more counts as new: to
clean rows again is safe, to pass over them is not.
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
"""Tells what a snapshot did to each log; under None, to every log not named. As it never changes, it may be kept."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of how a data file's rows came to be. An offset is None where the file has no such row."""

    known: bool | None = True
    """Whether the file holds rows that the last pass knew; None where no snapshot tells any more, and see `on_read`."""
    unseen_from: int | None = None
    """Lowest offset of a row that the last pass has not seen as the row is now."""
    late_from: int | None = None
    """Lowest offset of an unseen row that is no rewrite of a row that was there before."""
    fresh: bool = False
    """Whether the file may hold tombstones to which no pass has given a horizon."""
    since: int = 0
    """Sequence number of the commit since which rows of the file are in the log, 0 where passes have seen them."""
    on_read: bool = False
    """Whether `known` is None for this reason alone: the rows may be new versions of rows whose files stayed, as after
    a merge-on-read UPDATE."""


SEEN = Origin()
"""The origin of a file whose rows the last pass has all seen."""
ON_READ = None, True
"""`known` and `on_read` of a file that a merge-on-read UPDATE may have put beside the files of the old rows."""


def was_seen(file: DataFile, state: LogState) -> bool:
    """Returns whether the log's last pass read or made the commit that brought a file.

    Commits of other writers that came while the pass ran are unseen. Commits since that brought only seen rows, and
    rows of the head, count as seen once the state records them.

    Args:
        file: one of the log's.
        state: of the log; a log that no pass has cleaned has no seen commits.
    """
    return state.seen_commits.holds(file.file_sequence_number)


_Question = tuple[str, int, Partition, SeenCommits, int]
"""What an origin depends on: a file's path and commit, its log, and of the state the seen and the recorded commits."""


class _Late:
    """The ranges of offsets in which late rows of several files lie.

    Args:
        ranges: first and last offset of each range.
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
    """What is known of the rows that one commit removed from a log. Origins are None where it removed none."""

    all: Origin | None
    """The origin of all of them together."""
    late: _Late
    """Where the late rows among them lie, by the origin of each removed file."""
    apart: Origin | None
    """Like `all`, but every row of a removed mixed file counts as unseen and late from the file's first offset on."""
    late_apart: _Late
    """Where the late rows among them lie when they are counted as in `apart`."""
    fresh_below: bool
    """Whether tombstones without a horizon may be among the rows that passes have seen."""

    def in_file(self, file: DataFile, apart: bool = False) -> Origin:
        """Returns the origin of an added file whose rows are unchanged from the removed files.

        Where the commit removed none, a pass made it, and the file counts as seen.

        Args:
            file: one that the commit added.
            apart: whether to count rows of mixed files as in `apart`.
        """
        before, late = (self.apart, self.late_apart) if apart else (self.all, self.late)
        if before is None:
            return SEEN
        unseen_from = _within(file, before.unseen_from)
        fresh = before.fresh and (unseen_from is not None or self.fresh_below)
        return replace(before, unseen_from=unseen_from, late_from=late.lowest_in(file), fresh=fresh)


class Lineage:
    """The commits that led to the current snapshot, and what they tell of how the rows of logs came to be.

    Args:
        table: as pyiceberg loaded it.
        changes: tells what a snapshot did to each log.
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
        """Returns how a file's rows came to be.

        Args:
            log: the file's.
            file: a data file of the current snapshot or of one before it.
            state: of the log; where no pass has cleaned it, every row is unseen.
        """
        # rewrites of rewrites may be many, so a loop looks up a file once the files that its commit removed are known
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
        """Returns a file's origin by the state or as it was looked up before; None where it has to be looked up."""
        if was_seen(file, state):
            return SEEN
        read, known_to = state.seen_commits.read, state.unseen.known_to if state.unseen else 0
        if file.file_sequence_number <= known_to and file.file_sequence_number not in self.commits:
            # the commit has expired; the state recorded what it told, but as one offset for all of the log's rows
            unseen_from, late_from = (
                (state.unseen.unseen_from, state.unseen.late_from) if state.unseen else (None, None)
            )
            fresh = unseen_from is not None or covered_to(state) >= (state.checkpoint or 0)
            return replace(
                SEEN, unseen_from=_within(file, unseen_from), late_from=_within(file, late_from), fresh=fresh
            )
        if file.data_sequence_number < file.file_sequence_number and file.data_sequence_number <= read:
            # a rewrite, whose older data sequence number says that its rows were there when the pass read
            return SEEN
        origin = self._looked_up.get(_question(file.path, file.file_sequence_number, log, state))
        if origin and file.file_sequence_number <= known_to:
            # the log had not started anew when that was recorded, so the rows it had then count as known to passes
            return replace(origin, known=True, since=0, on_read=False)
        return origin

    def _unknown_before(self, log: Partition, file: DataFile, state: LogState) -> list[DataFile]:
        """Returns the files of old rows that a file's commit may have rewritten, if they have to be looked up first."""
        snapshot = self.commits.get(file.file_sequence_number)
        if snapshot is None or snapshot.summary is None or is_append(snapshot):
            return []
        if _question("", file.file_sequence_number, log, state) in self._taken:
            return []
        older = self._older(log, snapshot) or self._older_that_left_later(log, snapshot)
        return [gone for gone in older if self._known(log, gone, state) is None]

    def _older(self, log: Partition, snapshot: Snapshot) -> list[DataFile]:
        """Returns those files removed by a snapshot from a log that older commits brought; nothing tells of others."""
        sequence = snapshot.sequence_number or 0
        return [gone for gone in self.changed(snapshot, log).removed if gone.file_sequence_number < sequence]

    def _older_that_left_later(self, log: Partition, snapshot: Snapshot) -> list[DataFile]:
        """Returns the files of a log that were there before a snapshot and that later snapshots removed.

        The snapshot may have hidden rows of them by deletes.
        """
        sequence = snapshot.sequence_number or 0
        if (log, sequence) not in self._left_later:
            later = [s for number, s in self.commits.items() if number > sequence and not is_append(s)]
            gone = [file for s in later for file in self.changed(s, log).removed]
            self._left_later[log, sequence] = [file for file in gone if file.file_sequence_number < sequence]
        return self._left_later[log, sequence]

    def packed(self, log: Partition, state: LogState) -> tuple[DataFile, ...]:
        """Returns the files of a log that `replace` commits of other writers have removed since its last pass."""
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
        """Returns the common origin of the files of `_older_that_left_later`; None where there are none."""
        gone = [(f, self.origin(log, f, state)) for f in self._older_that_left_later(log, snapshot)]
        return _together([replace(o, late_from=f.min_offset) if f.trouble else o for f, o in gone])

    def _taken_by(self, log: Partition, snapshot: Snapshot, state: LogState) -> _Taken:
        """Returns what is known of all rows that a snapshot removed from a log; worked out once, for all files."""
        question = _question("", snapshot.sequence_number or 0, log, state)
        if question not in self._taken:
            left = [(gone, self.origin(log, gone, state)) for gone in self._older(log, snapshot)]
            emptied = self.changed(snapshot, log).emptied
            # no row of a mixed file lies before the file's first offset, whichever log the row is in
            apart = [replace(o, unseen_from=f.min_offset, late_from=f.min_offset) if f.trouble else o for f, o in left]
            # where deletes had taken all rows of a removed file before, none of these is in the added files
            ends = [-1 if f.path in emptied else LONG_MAX if f.trouble else f.max_offset for f, _ in left]
            self._taken[question] = _Taken(
                _together([o for _, o in left]), _late_in([o for _, o in left], ends), _together(apart),
                _late_in(apart, ends), any(o.fresh and o.unseen_from is None for _, o in left),
            )  # fmt: skip
        return self._taken[question]

    def _look_up(self, log: Partition, file: DataFile, state: LogState) -> Origin:
        """Returns the origin of a file by the snapshot that brought it; those of its removed files must be known."""
        snapshot = self.commits.get(file.file_sequence_number)
        new = Origin(False, file.min_offset, file.min_offset, True, file.file_sequence_number)
        if snapshot is None:
            # the snapshot has expired, so the log keeps its state and the rows are cleaned again
            return Origin(None, file.min_offset, file.min_offset, True)
        if snapshot.summary is None or is_append(snapshot):
            return new
        if file.trouble:
            return self._of_no_one_log(log, file, state, snapshot)
        change = self.changes(snapshot).get(log)
        if change is None:
            return SEEN if is_hardpacks(snapshot) else new
        if split_all_rows(snapshot):
            # a split; appends had brought these rows in mixed files
            return replace(new, since=file.file_sequence_number if change.since is None else change.since)
        taken = self._taken_by(log, snapshot, state)
        before = taken.all
        if is_hardpacks(snapshot):
            # phase two or a portion: both leave late rows to the end of a phase one
            return taken.in_file(file)
        if change.in_trouble or (not change.removed and change.deleted is None):
            return self._of_no_one_log(log, file, state, snapshot)
        if snapshot.summary.operation == Operation.REPLACE:
            return taken.in_file(file) if before and change.is_no_larger else new
        if not before and change.rewrites(file):
            # the files of the old rows may have left since; they tell whether the rows were late, and since when
            known, on_read = ON_READ
            left = self._left_behind(log, snapshot, state) or Origin(since=file.file_sequence_number)
            return Origin(known, file.min_offset, _within(file, left.late_from), True, left.since, on_read)
        return (_of_update(file, change, before, taken.late) if before else None) or new

    def _of_no_one_log(self, log: Partition, file: DataFile, state: LogState, made_by: Snapshot) -> Origin:
        """Returns the origin of a file into which a rewrite may have put rows of several logs."""
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
        # passes may have known other rows of the removed files than those in this file
        return Origin(None if known else known, unseen_from, late_from, True, since, on_read)

    def _changes_no_row(self, snapshot: Snapshot) -> bool:
        """Returns whether a snapshot is a `replace` that adds no more rows than it removes, over all logs together."""
        if snapshot.summary is None or snapshot.summary.operation != Operation.REPLACE:
            return False
        if snapshot.snapshot_id not in self._changed_no_row:
            changes = self.changes(snapshot).values()
            came = {f.path: f.rows for change in changes for f in change.added}
            left = {f.path: f.rows for change in changes for f in change.removed}
            self._changed_no_row[snapshot.snapshot_id] = sum(came.values()) <= sum(left.values())
        return self._changed_no_row[snapshot.snapshot_id]

    def changed(self, snapshot: Snapshot, log: Partition) -> Change:
        """Returns what a snapshot did to a log, also where none of its files names the log."""
        changes = self.changes(snapshot)
        return changes.get(log, changes[None])

    def replaced(
        self, log: Partition, files: Sequence[DataFile], state: LogState, waiting: Sequence[DataFile] = ()
    ) -> int | None:
        """Returns the commit since which a log has only new rows, if other writers replaced all old ones; else None.

        The rows are replaced when all that the log's last pass knew left before any of the present ones came. Present
        rows of unknown origin keep the log as it is. Such rows prove nothing when they leave: rows that came before
        that may have stood beside known ones.

        Args:
            log: the log.
            files: its present data files.
            state: its state.
            waiting: mixed files, which may hold rows of this log too, marked by `DataFile.of_no_one_log`; there is at
                least one file in `files` and `waiting` together.

        Returns:
            The commit's sequence number, or None.
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
                # the last commit that removed known rows, as far as history tells
                return since if since >= sequence else None
        return None


def _question(path: str, file_sequence_number: int, log: Partition, state: LogState) -> _Question:
    """Returns the key under which an origin is kept: it depends on nothing else of the state."""
    return path, file_sequence_number, log, state.seen_commits, state.unseen.known_to if state.unseen else 0


def _together(origins: Sequence[Origin]) -> Origin | None:
    """Returns the origins of several files as one origin; None for no files."""
    if not origins:
        return None
    kinds = {(o.known, o.on_read) for o in origins}
    # the answer counts that speaks most for keeping the log's state
    known, on_read = next((a for a in ((True, False), (None, False), ON_READ) if a in kinds), (False, False))
    unseen_from, late_from = (
        min((o for o in offsets if o is not None), default=None)
        for offsets in ([o.unseen_from for o in origins], [o.late_from for o in origins])
    )
    return Origin(known, unseen_from, late_from, any(o.fresh for o in origins), min(o.since for o in origins), on_read)


def _late_in(origins: Iterable[Origin], ends: Iterable[int]) -> _Late:
    """Returns where late rows lie, given each file's origin and last offset; a file that ends before them has none."""
    told = zip((o.late_from for o in origins), ends, strict=True)
    return _Late((first, end) for first, end in told if first is not None and first <= end)


def _of_update(file: DataFile, change: Change, before: Origin, late: _Late) -> Origin | None:
    """Returns the origin of a file whose commit changed rows; None where the rows count as new ones."""
    if not change.rewrites(file):
        return _of_grown(file, change, before, late) if change.grows else None
    late_from = file.min_offset if change.may_bring_more else late.lowest_in(file)
    return replace(before, unseen_from=file.min_offset, late_from=late_from, fresh=True)


def _of_grown(file: DataFile, change: Change, before: Origin, late: _Late) -> Origin:
    """Returns the origin of a file into which another writer put new rows beside old ones."""
    # new rows may lie among the old ones, so all rows count as late
    late_from: int | None = file.min_offset
    if change.grows_behind:
        # the new rows lie behind the removed files, but other files may reach further: then these rows are late
        froms = late.lowest_in(file), _within(file, change.last + 1)
        late_from = min((o for o in froms if o is not None), default=None)
    return replace(before, unseen_from=file.min_offset, late_from=late_from, fresh=True)


def _within(file: DataFile, offset: int | None) -> int | None:
    """Returns the lowest offset in a file's range that is not below an offset; None where there is none."""
    return None if offset is None or offset > file.max_offset else max(offset, file.min_offset)
