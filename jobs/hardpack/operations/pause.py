"""Changes logs' states: pause, resume, horizons after another tombstone rule, records before history expires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from pyiceberg.table.snapshots import Snapshot

from hardpack.compaction.alter_states import alter_states
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.rules.horizons import dated, dated_anew, horizon_from, undone_clock
from hardpack.rules.late_rows import are_behind_tombstones, seem_of_another_topic, waits_for_trust
from hardpack.rules.model import LogState, LogView, Partition, SeenCommits, SnapshotRef
from hardpack.rules.replaced import within_reach
from hardpack.rules.settings import Settings
from hardpack.table.history import horizons_at
from hardpack.table.log_views import rewritten_unseen
from hardpack.table.state import state_with_history


def pause(session: TableSession, partitions: Sequence[Partition] | None) -> dict[str, LogState]:
    """Keeps logs from being selected. Pauses count: each needs its own resume (LogCleanerManager.pauseCleaning).

    Args:
        session: the table's.
        partitions: which logs, None for all.

    Returns:
        The logs' states, by partition.
    """
    return alter_states(session, "pause", partitions, lambda _, state: replace(state, paused=state.paused + 1))


def resume(
    session: TableSession, partitions: Sequence[Partition] | None, now: int, trust_late_rows: bool = False
) -> dict[str, LogState]:
    """Undoes one pause of each log and clears what made it uncleanable (LogCleanerManager.resumeCleaning).

    Where the last pass ran by a clock in the future, its time becomes `now` and the horizons that it gave count from
    `now`, so that it no longer holds up other passes.

    Args:
        session: the table's.
        partitions: which logs, None for all that are held up.
        now: ms since the epoch.
        trust_late_rows: let rows be cleaned that arrived below removed tombstones, though a deleted key may come back,
            or that seem to be of a topic made anew. A log with rows below removed tombstones forgets which tombstones
            are gone, so that further rows below them are cleaned too.

    Raises:
        BadInput: a log was named that has nothing to undo.
    """

    @cache
    def before(_: int | None) -> dict[str, frozenset[int]]:
        # cached by snapshot, as another try may find that the table has moved on
        return horizons_at(session.table, now)

    @cache
    def in_force(_: str) -> Settings:
        # cached by metadata file, so that the settings are not worked out anew for each log
        return session.settings

    def resumed(view: LogView, state: LogState) -> LogState:
        settings = in_force(session.table.metadata_location)
        ahead = bool(state.last_clean and state.last_clean.now > now)
        trusted = trust_late_rows and waits_for_trust(view, settings)
        if not (state.paused or state.uncleanable or ahead or trusted):
            if partitions is None:
                return state
            untrusted = ", and no late rows of it wait to be trusted" if trust_late_rows else ""
            if trust_late_rows and view.late_from is not None and settings.late_rows == "refuse":
                untrusted = ", and trust lets no late rows in where late.rows is refuse"
            raise BadInput(
                f"{session.name}: partition {view.partition} is neither paused nor marked by a pass{untrusted}; "
                "`hardpack status` shows how logs stand."
            )
        if ahead:
            right_before = before(session.base).get(view.name)
            state = undone_clock(state, now, settings.delete_retention_ms, right_before)
        if trusted and settings.late_rows != "refuse" and are_behind_tombstones(view):
            state = replace(state, expired_to=-1)
        if trusted and seem_of_another_topic(view):
            state = replace(state, trusted_to=max(f.file_sequence_number for f in view.files))
        return replace(state, paused=max(0, state.paused - 1), uncleanable="")

    return alter_states(session, "resume", partitions, resumed)


def date_anew(session: TableSession, settings: Settings, now: int) -> dict[str, LogState]:
    """Gives one new delete horizon to all tombstones that passes have met, as the rule for tombstones changes.

    Args:
        session: the table's, whose own settings may be wrong.
        settings: the settings from now on.
        now: ms since the epoch.

    Returns:
        The logs' states, by partition.
    """
    horizon = horizon_from(now, settings.delete_retention_ms)
    return alter_states(session, "adopt", None, lambda _, state: dated_anew(state, horizon), settings)


def remember(session: TableSession, now: int) -> dict[str, LogState]:
    """Records in the logs' states what kept snapshots tell of unseen rows, so that these snapshots may expire.

    Tombstones that a rollback left without a horizon get one, as a log that nobody writes to has no next pass.

    Args:
        session: the table's.
        now: ms since the epoch.
    """
    horizon = horizon_from(now, session.settings.delete_retention_ms)

    @cache
    def oldest(_: str) -> int:
        # cached by metadata file, so that it is not looked for anew for each log
        return min(s.sequence_number or 0 for s in session.table.snapshots())

    def remembered(view: LogView, state: LogState) -> LogState:
        current = session.table.current_snapshot()
        if current is None or view.trouble:
            # the offsets of a file in trouble mean nothing, and must not stay in the state when the file has gone
            return state
        there_by, reach = _there_by(view, current), oldest(session.table.metadata_location)
        state, before = (replace(within_reach(one, reach), there_by=there_by) for one in (state, view.state))
        if view.unseen_from is None:
            # with unseen rows a pass is still to come, which gives the horizon
            state, before = dated(state, horizon), dated(before, horizon)
        view = replace(view, state=before)
        if view.state == state and not rewritten_unseen(session.table, view):
            return state
        at = SnapshotRef(current.snapshot_id, current.sequence_number or 0)
        if view.state.snapshot is None and view.state.seen is None:
            # its rows are gone, which a rollback may undo
            return replace(view.state, snapshot=at, seen=SeenCommits(at.sequence_number), empty=not view.files)
        return state_with_history(view, at.sequence_number, at.id)

    return alter_states(session, "remember", None, remembered)


def _there_by(view: LogView, current: Snapshot) -> tuple[int, int] | None:
    """Returns the sequence number and the time of a commit by which files without any timestamp were in the log.

    A pair that was recorded stays until the last file that it covers has left. None without such files.
    """
    timeless, there_by = view.timeless, view.state.there_by
    if there_by is None or all(f.file_sequence_number > there_by[0] for f in timeless):
        there_by = current.sequence_number or 0, current.timestamp_ms
    return there_by if timeless else None
