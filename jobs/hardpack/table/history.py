"""The table's past as pyiceberg's metadata tells it: which passes were committed, and which state still holds."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hardpack.rules.horizons import UNDATED, dated_anew
from hardpack.rules.model import LogState, SnapshotRef
from hardpack.rules.replaced import untold
from hardpack.rules.times import LONG_MAX
from hardpack.table.columns import table_name
from hardpack.table.layout import FIELDS, TOMBSTONES, mean_other_rows
from hardpack.table.packing import Lost, PassFolder
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY, STATE_PROPERTY, made_by, read_state, state_of

CARRIED = frozenset({"automq.commit.id"})
"""Names in summaries by which a writer looks up in the current snapshot how far it is, so that ours have them too."""
CONTROL = "control:"
"""How the plan's name begins in commits that change nothing but states."""


SPLIT_SUMMARY = "hardpack.split"
"""Names the split that made a snapshot; begins with `WHOLE` where its files had all rows that appends had brought."""
PORTION_SUMMARY = "hardpack.portion"
"""Which commit of how many of one pass made a snapshot, and a name of its files, as `2/15:960a7d50dbf0`.

The last one has the pass's report instead.
"""
WHOLE = "whole:"


@dataclass(frozen=True)
class Commit:
    """A snapshot that a pass made: `plan` is `phase:id`."""

    snapshot: int
    parent: int | None
    plan: str
    as_mapped: bool
    """Whether it tells of logs, offsets and keys that the table's settings still name so."""
    kept: str
    folder: PassFolder

    @cached_property
    def report(self) -> str:
        """The JSON of what the pass did; empty when the file that it stood in is gone."""
        try:
            return self.folder.text(self.kept)
        except Lost:
            return ""


def ancestors(table: Table) -> Iterator[Snapshot]:
    """Yields the current snapshot and those before it, newest first, as far as they have not expired."""
    by_id = {s.snapshot_id: s for s in table.snapshots()}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        snapshot = by_id.get(snapshot.parent_snapshot_id or 0)


def commits(table: Table) -> Iterator[Commit]:
    """Our commits among the current snapshot's ancestors, newest first."""
    folder = PassFolder.of(table)
    for snapshot in ancestors(table):
        summary = summary_of(snapshot)
        if PASS_SUMMARY in summary and PLAN_SUMMARY in summary:
            yield Commit(
                snapshot.snapshot_id,
                snapshot.parent_snapshot_id,
                summary[PLAN_SUMMARY],
                as_mapped(table, snapshot),
                summary[PASS_SUMMARY],
                folder,
            )


def trusted_states(table: Table) -> dict[str, LogState]:
    """Returns the state of every log, as it belongs to the current snapshot.

    A property stays when the table is rolled back, and when it is rolled forward again. So it is believed when it is
    what the newest of our commits in the current snapshot's past has left; else each log's state is that of the newest
    commit there that tells of it. Pauses and marks hold whatever the table was rolled to.
    """
    return dict(Record.of(table).trusted)


def horizons_at(table: Table, now: int) -> dict[str, frozenset[int]]:
    """Returns by log the delete horizons, ms, that its last pass left which was no later than a time.

    Args:
        table: as pyiceberg loaded it.
        now: ms since the epoch.

    Returns:
        Nothing of a log of which no snapshot tells such a pass any more; no horizons of one that had none before.
    """
    name, folder, past = table_name(table), PassFolder.of(table), _Past(table)
    logs, horizons = read_state(name, table.properties).keys(), dict[str, frozenset[int]]()
    for snapshot in past.with_states:
        for log, state in (_states_left_by(name, folder, snapshot) or {}).items():
            if log not in horizons and (not state.last_clean or state.last_clean.now <= now):
                horizons[log] = frozenset(ms for ms, _ in state.markers) | {ms for _, ms in state.horizons}
        if logs <= horizons.keys():
            break
    return {log: frozenset[int]() for log in logs if past.whole} | horizons


def _trusted(table: Table, states: dict[str, LogState], past: _Past) -> dict[str, LogState]:
    name, folder = table_name(table), PassFolder.of(table)
    if states and past.left_by_newest(name, folder, states):
        return past.within_past(states)
    undone = {log for log, state in states.items() if past.lacks(state)}
    earlier: dict[str, LogState] = {}
    lost = False
    for snapshot in past.with_states:
        if states.keys() <= earlier.keys():
            break
        if (recorded := _states_left_by(name, folder, snapshot)) is None:
            # what it told of must not come from an older one
            lost = True
            break
        earlier = past.as_dated(snapshot, recorded) | earlier
    for log in undone | (states.keys() & earlier.keys()):
        # what nobody tells any more may have expired tombstones too
        certain = past.whole and not lost
        unknown = LogState() if certain else untold(states[log], past.lacks_commit)
        states[log] = replace(earlier.get(log, unknown), paused=states[log].paused, uncleanable=states[log].uncleanable)
    return past.within_past(states)


@dataclass(frozen=True)
class Record:
    """The states of a table's logs as a pass finds them: as the property says, and as belongs to its snapshot."""

    stated: Mapping[str, LogState]
    trusted: Mapping[str, LogState]
    undone: frozenset[int]
    """Commits of ours that a rollback has taken."""

    @classmethod
    def of(cls, table: Table) -> Record:
        """Returns what a table as it was loaded has on record."""
        stated, past = read_state(table_name(table), table.properties), _Past(table)
        with_states = (s.snapshot_id for s in table.snapshots() if tells_states(s))
        undone = frozenset(number for number in with_states if number not in past.ids)
        return cls(stated, _trusted(table, dict(stated), past), undone)

    def why_moved(self, base: int | None, past: Container[int | None]) -> str:
        """Returns why the table no longer stands where the states were read, else an empty text.

        Others may have gone on from there.

        Args:
            base: id of the snapshot that was read, None of a table without one.
            past: the ids of the current snapshot and of those before it.
        """
        if base is not None and base not in past:
            return (
                f"snapshot {base}, which was read, is no longer in the table's past, as after a rollback or when the "
                "table was replaced"
            )
        if any(number in past for number in self.undone):
            return "passes that a rollback had undone are in the table's past again"
        return ""

    def is_unchanged(self, log: str, state: LogState) -> bool:
        """Returns whether a log's state is still the one that was read.

        What any commit of ours makes of that one counts as the same.
        """
        return state in (state_of(self.stated, log), state_of(self.trusted, log))


def _states_left_by(table: str, folder: PassFolder, snapshot: Snapshot) -> dict[str, LogState] | None:
    """Returns the states that a commit of ours left, of its logs; None when the file that they stood in is gone."""
    summary = summary_of(snapshot)
    try:
        then = read_state(table, {STATE_PROPERTY: folder.text(summary[STATE_PROPERTY])})
    except Lost:
        return None
    if summary.get(PLAN_SUMMARY, "").startswith(CONTROL):
        return then
    at = SnapshotRef(snapshot.snapshot_id, snapshot.sequence_number or 0)
    return {log: made_by(state, at) for log, state in then.items()}


class _Past:
    """The current snapshot's ancestors, looked through once for all logs."""

    def __init__(self, table: Table) -> None:
        self.fields = table.properties.get(FIELDS, "")
        self.lineage = list(ancestors(table))
        telling = [s for s in self.lineage if tells_states(s)]
        self.with_states = [s for s in telling if as_mapped(table, s)]
        self.mapped_otherwise = {s.snapshot_id for s in telling} - {s.snapshot_id for s in self.with_states}
        # of the commit that wrote the property last, on whatever line, as far as it has not expired
        self.written = max((s.sequence_number or 0 for s in table.snapshots() if tells_states(s)), default=0)
        self.ids = {s.snapshot_id for s in self.lineage}
        self.sequences = {s.sequence_number or 0 for s in self.lineage}
        self.newest, self.oldest = max(self.sequences, default=-1), min(self.sequences, default=None)
        self.whole = not self.lineage or (self.lineage[-1].sequence_number or 0) <= 1
        self.elsewhere = {s.snapshot_id for s in table.snapshots()} - self.ids if _began_empty(self.lineage) else set()

    def left_by_newest(self, table: str, folder: PassFolder, states: Mapping[str, LogState]) -> bool:
        """Returns whether states are what the newest commit of ours has left, as far as that tells of them."""
        if not self.with_states:
            return False
        newest = self.with_states[0].sequence_number or 0
        if self.written > newest:
            # a commit on another line may have told of logs that the newest one of this line does not tell of
            return False
        if any(state.last_pass_sequence > newest for state in states.values()):
            return False
        recorded = _states_left_by(table, folder, self.with_states[0])
        if recorded is None:
            # nobody wrote the property since, and what it names is in the past
            return not any(self.lacks(state) for state in states.values())
        return bool(recorded) and all(
            log in states and states[log].snapshot == recorded[log].snapshot for log in recorded
        )

    def lacks(self, state: LogState) -> bool:
        """Returns whether the commit that left this state is not in the past, or told of other logs or keys."""
        if state.snapshot is None:
            return False
        return state.snapshot.id in self.elsewhere | self.mapped_otherwise or self._lacks(*state.snapshot)

    def as_dated(self, snapshot: Snapshot, states: dict[str, LogState]) -> dict[str, LogState]:
        """Returns the states that a commit left, without horizons where other rows were tombstones then."""
        if not mean_other_rows(summary_of(snapshot).get(FIELDS, ""), self.fields, TOMBSTONES):
            return states
        return {log: dated_anew(state, UNDATED) for log, state in states.items()}

    def within_past(self, states: Mapping[str, LogState]) -> dict[str, LogState]:
        """Returns the states without what was recorded of rows that are not in the past.

        History is asked for these again.
        """
        return {
            log: replace(state, unseen=None)
            if (unseen := state.unseen)
            and unseen.known_at is not None
            and self._lacks(unseen.known_at, unseen.known_to)
            else state
            for log, state in states.items()
        }

    def lacks_commit(self, sequence: int) -> bool:
        """Returns whether the commit of a sequence number is not in the past."""
        return sequence not in self.sequences and self._is_elsewhere(sequence)

    def _lacks(self, snapshot: int, sequence: int) -> bool:
        return snapshot not in self.ids and self._is_elsewhere(sequence)

    def _is_elsewhere(self, sequence: int) -> bool:
        if self.whole or sequence > self.newest:
            return True
        # behind what has expired a commit lies in the past, though a tag may keep it; else the history steps over it
        return self.oldest is None or self.oldest < sequence


def _began_empty(lineage: Sequence[Snapshot]) -> bool:
    """Returns whether a table was empty when the oldest snapshot of its past was made, which has no parent.

    CREATE OR REPLACE TABLE keeps a table's old snapshots, in no past any more, and goes on in their numbers.
    """
    if not lineage or lineage[-1].parent_snapshot_id is not None:
        return False
    summary = summary_of(lineage[-1])
    return "deleted-data-files" not in summary and None is not summary.get("total-records") == summary.get(
        "added-records"
    )


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """Returns what the snapshot's summary says beside the operation."""
    # an empty summary is false, and asking costs a count of all its entries
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def bytes_in(summary: Mapping[str, str], name: str) -> int:
    """Returns a number of bytes that a summary tells, 0 where it tells none; anybody may have written it."""
    text = summary.get(name, "")
    return min(int(text), LONG_MAX) if text.isdecimal() and len(text) < 100 else 0


def data_bytes(table: Table) -> int:
    """Returns the size of the table's files, as its current snapshot tells it; 0 where it does not."""
    snapshot = table.current_snapshot()
    return bytes_in(summary_of(snapshot), "total-files-size") if snapshot else 0


def tells_states(snapshot: Snapshot) -> bool:
    """Returns whether the snapshot's summary keeps states of logs."""
    return STATE_PROPERTY in summary_of(snapshot)


def is_hardpacks(snapshot: Snapshot) -> bool:
    """Returns whether the snapshot names a request to hardpack that made it; that of a split names none."""
    return PLAN_SUMMARY in summary_of(snapshot)


def as_mapped(table: Table, snapshot: Snapshot) -> bool:
    """Returns whether a commit of ours tells of logs, offsets and keys that the table's settings still name so.

    One that does not tell by which fields it went, as older versions made, is believed.
    """
    return not mean_other_rows(summary_of(snapshot).get(FIELDS, ""), table.properties.get(FIELDS, ""))


def is_earlier_portion(snapshot: Snapshot) -> bool:
    """Returns whether a pass made the snapshot that was to go on with another commit; the last one tells of all."""
    return PORTION_SUMMARY in summary_of(snapshot)


def is_split(snapshot: Snapshot) -> bool:
    """Returns whether hardpack took files of several logs apart in a snapshot; it is no pass, and changes no row."""
    return SPLIT_SUMMARY in summary_of(snapshot)


def split_all_rows(snapshot: Snapshot) -> bool:
    """Returns whether a snapshot split files that had all rows of the appends which had brought them."""
    return summary_of(snapshot).get(SPLIT_SUMMARY, "").startswith(WHOLE)


def is_append(snapshot: Snapshot) -> bool:
    """Returns whether the snapshot says that it only added rows."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND


def carried(summary: Mapping[str, str]) -> dict[str, str]:
    """Returns what a snapshot of ours takes over from the one before it.

    Args:
        summary: of the current snapshot.
    """
    return {name: summary[name] for name in CARRIED & summary.keys()}
