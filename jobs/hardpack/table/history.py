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
"""Summary entries by which a writer looks up in the current snapshot how far it is; hardpack's snapshots copy them."""
CONTROL = "control:"
"""How `hardpack.plan` begins in the summary of a commit that changes nothing but states."""


SPLIT_SUMMARY = "hardpack.split"
"""Names the split that made a snapshot. It begins with `WHOLE` where its files had all rows that appends brought."""
PORTION_SUMMARY = "hardpack.portion"
"""Entry of a portion: its number, how many there are in the pass, and a name of its files, as `2/15:960a7d50dbf0`.

The last portion has the pass's report instead.
"""
WHOLE = "whole:"


@dataclass(frozen=True)
class Commit:
    """A snapshot that a pass made: `plan` is `phase:id`."""

    snapshot: int
    parent: int | None
    plan: str
    as_mapped: bool
    """Whether the table's settings still map partition, offset and key to the fields that the pass went by."""
    kept: str
    """What the summary has for the report; see `PassFolder`."""
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
    """Yields the commits with the report of a pass among the current snapshot's ancestors, newest first."""
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

    A table property stays as it is when the table is rolled back or forward. So `hardpack.state` is believed only when
    the newest of hardpack's commits in the current snapshot's past has left it. Else each log's state is that of the
    newest commit there that tells of the log. Pauses and marks hold whatever the table was rolled to.
    """
    return dict(Record.of(table).trusted)


def horizons_at(table: Table, now: int) -> dict[str, frozenset[int]]:
    """Returns by log the delete horizons, ms, that stood after the last of its passes whose time was not after `now`.

    Args:
        table: as pyiceberg loaded it.
        now: ms since the epoch.

    Returns:
        The horizons by log. A log is missing where no snapshot tells of such a pass any more. It has an empty set where
        history is whole and has no such pass, or the pass left no horizon.
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
            # the logs that it told of must not get their states from an older commit
            lost = True
            break
        earlier = past.as_dated(snapshot, recorded) | earlier
    for log in undone | (states.keys() & earlier.keys()):
        # passes of which no snapshot tells any more may have removed tombstones too
        certain = past.whole and not lost
        unknown = LogState() if certain else untold(states[log], past.lacks_commit)
        states[log] = replace(earlier.get(log, unknown), paused=states[log].paused, uncleanable=states[log].uncleanable)
    return past.within_past(states)


@dataclass(frozen=True)
class Record:
    """The states of a table's logs as a pass reads them: as the property has them, and as its snapshot's past does."""

    stated: Mapping[str, LogState]
    trusted: Mapping[str, LogState]
    undone: frozenset[int]
    """Ids of snapshots with states that are not in the current snapshot's past, as after a rollback."""

    @classmethod
    def of(cls, table: Table) -> Record:
        """Returns the record of a table as pyiceberg loaded it."""
        stated, past = read_state(table_name(table), table.properties), _Past(table)
        with_states = (s.snapshot_id for s in table.snapshots() if tells_states(s))
        undone = frozenset(number for number in with_states if number not in past.ids)
        return cls(stated, _trusted(table, dict(stated), past), undone)

    def why_moved(self, base: int | None, past: Container[int | None]) -> str:
        """Returns why the table's past no longer fits the states that were read; empty where it does.

        Commits that were made since, on top of the snapshot that was read, fit.

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

        The trusted form of the state counts as the same, as every commit of hardpack writes it.
        """
        return state in (state_of(self.stated, log), state_of(self.trusted, log))


def _states_left_by(table: str, folder: PassFolder, snapshot: Snapshot) -> dict[str, LogState] | None:
    """Returns the states that a commit of hardpack left for its logs; None when the file that they stood in is gone."""
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
        # sequence number of the commit that wrote the property last, on any line of history, if it has not expired
        self.written = max((s.sequence_number or 0 for s in table.snapshots() if tells_states(s)), default=0)
        self.ids = {s.snapshot_id for s in self.lineage}
        self.sequences = {s.sequence_number or 0 for s in self.lineage}
        self.newest, self.oldest = max(self.sequences, default=-1), min(self.sequences, default=None)
        # where the table's first commit is gone, some of the past has expired
        self.whole = not self.lineage or (self.lineage[-1].sequence_number or 0) <= 1
        # a past that began empty is complete, so every other snapshot lies outside of it
        self.elsewhere = {s.snapshot_id for s in table.snapshots()} - self.ids if _began_empty(self.lineage) else set()

    def left_by_newest(self, table: str, folder: PassFolder, states: Mapping[str, LogState]) -> bool:
        """Returns whether hardpack's newest commit in the past has left these states, for the logs it tells of."""
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
            # the commit's states are lost, but none wrote the property since: it holds if what it names is in the past
            return not any(self.lacks(state) for state in states.values())
        return bool(recorded) and all(
            log in states and states[log].snapshot == recorded[log].snapshot for log in recorded
        )

    def lacks(self, state: LogState) -> bool:
        """Returns whether the commit that left a state is not in the past, or told of other logs or keys."""
        if state.snapshot is None:
            return False
        return state.snapshot.id in self.elsewhere | self.mapped_otherwise or self._lacks(*state.snapshot)

    def as_dated(self, snapshot: Snapshot, states: dict[str, LogState]) -> dict[str, LogState]:
        """Returns the states that a commit left; all horizons are `UNDATED` where other rows were tombstones then."""
        if not mean_other_rows(summary_of(snapshot).get(FIELDS, ""), self.fields, TOMBSTONES):
            return states
        return {log: dated_anew(state, UNDATED) for log, state in states.items()}

    def within_past(self, states: Mapping[str, LogState]) -> dict[str, LogState]:
        """Returns the states without records of unseen rows that were made at a snapshot which is not in the past.

        History is asked for such rows again.
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
        # a commit before the oldest one left counts as in the past, though a tag may keep it; a later one that the past
        # lacks lies on another line
        return self.oldest is None or self.oldest < sequence


def _began_empty(lineage: Sequence[Snapshot]) -> bool:
    """Returns whether the oldest snapshot of a table's past has no parent, and began with an empty table.

    CREATE OR REPLACE TABLE makes such a snapshot too. It keeps the old snapshots, which are in no past any more, and
    goes on in their sequence numbers.
    """
    if not lineage or lineage[-1].parent_snapshot_id is not None:
        return False
    summary = summary_of(lineage[-1])
    return "deleted-data-files" not in summary and None is not summary.get("total-records") == summary.get(
        "added-records"
    )


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """Returns the entries of a snapshot's summary beside the operation."""
    # compared with None: an empty summary is false, and its truth value costs a count of all entries
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def bytes_in(summary: Mapping[str, str], name: str) -> int:
    """Returns the bytes that a summary has under a name, 0 where they are no number: anybody may have written them."""
    text = summary.get(name, "")
    return min(int(text), LONG_MAX) if text.isdecimal() and len(text) < 100 else 0


def data_bytes(table: Table) -> int:
    """Returns the size of the table's files in bytes by its current snapshot's summary; 0 where that has none."""
    snapshot = table.current_snapshot()
    return bytes_in(summary_of(snapshot), "total-files-size") if snapshot else 0


def tells_states(snapshot: Snapshot) -> bool:
    """Returns whether the snapshot's summary keeps states of logs."""
    return STATE_PROPERTY in summary_of(snapshot)


def is_hardpacks(snapshot: Snapshot) -> bool:
    """Returns whether a pass, a portion or a change of states by hardpack made the snapshot; a split does not count."""
    return PLAN_SUMMARY in summary_of(snapshot)


def as_mapped(table: Table, snapshot: Snapshot) -> bool:
    """Returns whether the table's settings still map partition, offset and key as when hardpack made a commit.

    A commit of an older version, which does not tell by which fields it went, is believed.
    """
    return not mean_other_rows(summary_of(snapshot).get(FIELDS, ""), table.properties.get(FIELDS, ""))


def is_earlier_portion(snapshot: Snapshot) -> bool:
    """Returns whether the snapshot is a portion of a pass but not its last one, which has the report of all."""
    return PORTION_SUMMARY in summary_of(snapshot)


def is_split(snapshot: Snapshot) -> bool:
    """Returns whether a split made the snapshot: it takes mixed files apart, is no pass, and changes no row."""
    return SPLIT_SUMMARY in summary_of(snapshot)


def split_all_rows(snapshot: Snapshot) -> bool:
    """Returns whether a split made the snapshot from files that still had all rows of the appends that brought them."""
    return summary_of(snapshot).get(SPLIT_SUMMARY, "").startswith(WHOLE)


def is_append(snapshot: Snapshot) -> bool:
    """Returns whether the snapshot says that it only added rows."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.APPEND


def carried(summary: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of the current snapshot's summary that hardpack's next snapshot copies.

    Args:
        summary: of the current snapshot.
    """
    return {name: summary[name] for name in CARRIED & summary.keys()}
