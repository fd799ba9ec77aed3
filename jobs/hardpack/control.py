"""What a person or a failed pass tells a log: pause, resume, uncleanable. It changes the state alone.

Each change is a snapshot that adds nothing: catalogs compare a table's snapshot when they swap its metadata, and not
its properties, so that of two changes at once none is lost, on any catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from hardpack.errors import BadInput, Conflict
from hardpack.lake.commit import Change, Standing
from hardpack.lake.history import CONTROL, Record, trusted_states
from hardpack.lake.layout import settings_of, table_name
from hardpack.lake.packing import PassFolder
from hardpack.lake.sensing import read_logs, rewritten_by_others
from hardpack.lake.state import PLAN_SUMMARY, STATE_PROPERTY, read_at, read_state, state_of, told, write_state
from hardpack.log.horizons import undone_clock
from hardpack.log.model import LogState, LogView, Partition
from hardpack.log.settings import NONE, Settings

if TYPE_CHECKING:
    from hardpack.lake.door import IceTable

TRIES = 8
WRITTEN_BY_PYICEBERG = 2
"""The greatest format version of which pyiceberg writes snapshots."""


Door = Callable[[], "IceTable"]
"""Opens the table's door, for the formats whose metadata pyiceberg does not write; it starts a JVM."""
Changed = Callable[[LogView, LogState], LogState]
"""Gives the new state of a log from its view and the state that stands."""


def pause(
    table: Table, partitions: Iterable[Partition] | None, policy: Mapping[str, str] = NONE, door: Door | None = None
) -> dict[str, LogState]:
    """Keep logs from being selected; pauses count, each is undone by one resume (LogCleanerManager.pauseCleaning).

    Args:
        table: as pyiceberg loaded it.
        partitions: which logs, None for all.
        policy: settings of the table's policy.
        door: see `Door`.

    Returns:
        The logs' states, by partition.
    """
    return _alter(table, "pause", partitions, policy, lambda _, state: replace(state, paused=state.paused + 1), door)


def resume(
    table: Table,
    partitions: Iterable[Partition] | None,
    now: int,
    trust_late_rows: bool = False,
    policy: Mapping[str, str] = NONE,
    door: Door | None = None,
) -> dict[str, LogState]:
    """Undo one pause of each log and clear what made it uncleanable (LogCleanerManager.resumeCleaning).

    A pass that was made by a clock in the future is undone as far as it keeps others from being made.

    Args:
        table: as pyiceberg loaded it.
        partitions: which logs, None for all that are paused or uncleanable.
        now: ms since the epoch.
        trust_late_rows: let rows that arrived below removed tombstones be cleaned, though a deleted key may come back.
        policy: settings of the table's policy.
        door: see `Door`.

    Raises:
        BadInput: a log was named that is neither paused nor uncleanable.
    """

    def resumed(view: LogView, state: LogState) -> LogState:
        ahead = state.last_clean.get("now", now) > now
        held = bool(state.paused or state.uncleanable or ahead)
        if not held and not trust_late_rows:
            if partitions is None:
                return state
            raise BadInput(
                f"{table_name(table)}: partition {view.partition} is neither paused nor uncleanable; "
                "`hardpack status` shows which logs are."
            )
        if ahead:
            state = undone_clock(state, now)
        expired_to = -1 if trust_late_rows else state.expired_to
        return replace(state, paused=max(0, state.paused - 1), uncleanable="", expired_to=expired_to)

    return _alter(table, "resume", partitions, policy, resumed, door)


def mark_uncleanable(
    table: Table,
    partitions: Iterable[Partition],
    reason: str,
    policy: Mapping[str, str] = NONE,
    door: Door | None = None,
) -> dict[str, LogState]:
    """Leave logs alone until somebody resumes them; Kafka forgets such a mark only when the broker restarts."""
    return _alter(table, "mark", partitions, policy, lambda _, state: replace(state, uncleanable=reason), door)


def remember(table: Table, policy: Mapping[str, str] = NONE, door: Door | None = None) -> dict[str, LogState]:
    """Put into the state what history tells of rows that no pass has seen, so that the history may expire.

    Args:
        table: as pyiceberg loaded it.
        policy: settings of the table's policy.
        door: see `Door`.
    """

    def remembered(view: LogView, state: LogState) -> LogState:
        current = table.current_snapshot()
        if current is None:
            return state
        state = replace(state, there_by=_there_by(view, current))
        view = replace(view, state=replace(view.state, there_by=state.there_by))
        if view.state == state and not rewritten_by_others(table, view):
            return state
        at = current.snapshot_id, read_at(table, current.snapshot_id)[0]
        if view.state.snapshot is None:
            # its rows are gone, which a rollback may undo
            return replace(view.state, snapshot=at, seen=(at[1], 0), empty=not view.files)
        return told(view, at[1], at[0])

    return _alter(table, "remember", None, policy, remembered, door)


def _there_by(view: LogView, current: Snapshot) -> tuple[int, int] | None:
    """When at the latest rows without a timestamp were there: as it was put down, until the last of these has left."""
    timeless, known = view.timeless, view.state.there_by
    if known is None or all(f.came > known[0] for f in timeless):
        known = current.sequence_number or 0, current.timestamp_ms
    return known if timeless else None


@retry(
    retry=retry_if_exception(lambda error: type(error) in (CommitFailedException, Conflict)),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    retry_error_callback=lambda _: _give_up(),
)
def _alter(
    table: Table,
    verb: str,
    partitions: Iterable[Partition] | None,
    policy: Mapping[str, str],
    change: Changed,
    door: Door | None,
) -> dict[str, LogState]:
    """Change the states of some logs, and commit them where one has changed.

    Returns:
        The states of all logs that were asked for, by partition.
    """
    table.refresh()
    settings = settings_of(table, policy)
    views = _wanted(table, settings, partitions)
    states = trusted_states(table)
    changed = {name: change(view, state_of(states, name)) for name, view in views.items()}
    on_record = read_state(table_name(table), table.properties)
    if all(state == state_of(on_record, name) for name, state in (states | changed).items()):
        return changed
    summary = {PLAN_SUMMARY: CONTROL + verb, STATE_PROPERTY: PassFolder.of(table).kept(write_state(changed))}
    try:
        _commit(table, write_state(states | changed), summary)
    except NotImplementedError:
        if door is None:
            raise
        _commit_by_door(door(), table, summary, write_state(states | changed))
    return changed


def _wanted(table: Table, settings: Settings, partitions: Iterable[Partition] | None) -> dict[str, LogView]:
    views = {str(v.partition): v for v in read_logs(table, settings)}
    if partitions is None:
        return views
    wanted = [str(p) for p in partitions]
    if missing := [p for p in wanted if p not in views]:
        raise BadInput(
            f"{table_name(table)}: there is no partition {missing[0]}, it has {', '.join(sorted(views)) or 'none'}."
        )
    return {p: views[p] for p in wanted}


class _Plain(Table):
    """A table that runs no code which its own properties name."""

    def location_provider(self) -> LocationProvider:
        """Places new metadata beside the old, or where the table's properties say."""
        named = {k: v for k, v in self.properties.items() if k != TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL}
        return load_location_provider(self.location(), named)


def _commit(table: Table, state: str, summary: dict[str, str]) -> None:
    """Set the state in one commit with a snapshot that adds nothing, which fails when the table has moved on.

    Raises:
        CommitFailedException: it has.
        NotImplementedError: pyiceberg does not write the table's format.
    """
    if table.metadata.format_version > WRITTEN_BY_PYICEBERG:
        raise NotImplementedError(f"pyiceberg writes no snapshots of format {table.metadata.format_version}")
    # a transaction of pyiceberg's that meets a conflict would be tried again with this very state
    transaction = Transaction(_Plain(table.name(), table.metadata, table.metadata_location, table.io, table.catalog))
    producer = transaction.update_snapshot(summary).fast_append()
    updates, requirements = producer._commit()
    same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
    properties = SetPropertiesUpdate(updates={STATE_PROPERTY: state})
    table.catalog.commit_table(table, (same_table, *requirements), (*updates, properties))


def _commit_by_door(door: IceTable, table: Table, summary: dict[str, str], state: str) -> None:
    """Do the same through the door.

    Raises:
        Conflict: the table has moved on.
    """
    current, record = table.current_snapshot(), Record.of(table)
    base = current.snapshot_id if current else None

    def properties(standing: Standing) -> dict[str, str]:
        if moved := record.why_moved(base, standing.ancestors):
            raise Conflict(f"{table_name(table)}: {moved}; try again.")
        if standing.properties.get(STATE_PROPERTY) != table.properties.get(STATE_PROPERTY):
            raise Conflict(f"{table_name(table)}: somebody else changed the state of its logs meanwhile; try again.")
        return {STATE_PROPERTY: state}

    door.commit(-1 if base is None else base, Change((), (), properties, summary))


def _give_up() -> dict[str, LogState]:
    raise Conflict(f"the table changed during each of {TRIES} tries to set its state; run it again.")
