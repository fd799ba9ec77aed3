"""What a person or a failed pass tells a log: pause, resume, uncleanable. Only state changes, no snapshot is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from hardpack.errors import BadInput, Conflict
from hardpack.lake.history import trusted_states
from hardpack.lake.layout import settings_of, table_name
from hardpack.lake.sensing import read_logs
from hardpack.lake.state import STATE_PROPERTY, read_state, state_of, write_state
from hardpack.log.model import LogState, Partition
from hardpack.log.settings import NONE

if TYPE_CHECKING:
    from hardpack.lake.door import IceTable

TRIES = 5
Written = TypeVar("Written")


Door = Callable[[], "IceTable"]
"""Opens the table's door, for the formats whose metadata pyiceberg does not write; it starts a JVM."""


def written(
    write: Callable[[], Written], door: Door | None, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]
) -> Written | None:
    """Properties set by pyiceberg or, in a format that it does not write, through the door; what pyiceberg gave.

    Args:
        write: sets them by pyiceberg.
        door: see `Door`.
        change: the same as `IceTable.alter` takes it.
    """
    try:
        return write()
    except NotImplementedError:
        if door is None:
            raise
        door().alter(change)
        return None


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
    return _alter(table, partitions, policy, lambda _, state: replace(state, paused=state.paused + 1), door)


def resume(
    table: Table,
    partitions: Iterable[Partition] | None,
    trust_late_rows: bool = False,
    policy: Mapping[str, str] = NONE,
    door: Door | None = None,
) -> dict[str, LogState]:
    """Undo one pause of each log and clear what made it uncleanable (LogCleanerManager.resumeCleaning).

    Args:
        table: as pyiceberg loaded it.
        partitions: which logs, None for all that are paused or uncleanable.
        trust_late_rows: let rows that arrived below removed tombstones be cleaned, though a deleted key may come back.
        policy: settings of the table's policy.
        door: see `Door`.

    Raises:
        BadInput: a log was named that is neither paused nor uncleanable.
    """

    def resumed(partition: str, state: LogState) -> LogState:
        held = bool(state.paused or state.uncleanable)
        if not held and not trust_late_rows:
            if partitions is None:
                return state
            raise BadInput(
                f"{table_name(table)}: partition {partition} is neither paused nor uncleanable; "
                "`hardpack status` shows which logs are."
            )
        expired_to = -1 if trust_late_rows else state.expired_to
        return replace(state, paused=max(0, state.paused - 1), uncleanable="", expired_to=expired_to)

    return _alter(table, partitions, policy, resumed, door)


def mark_uncleanable(
    table: Table,
    partitions: Iterable[Partition],
    reason: str,
    policy: Mapping[str, str] = NONE,
    door: Door | None = None,
) -> dict[str, LogState]:
    """Leave logs alone until somebody resumes them; Kafka forgets such a mark only when the broker restarts."""
    return _alter(table, partitions, policy, lambda _, state: replace(state, uncleanable=reason), door)


@retry(
    retry=retry_if_exception_type(CommitFailedException),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    retry_error_callback=lambda _: _give_up(),
)
def _alter(
    table: Table,
    partitions: Iterable[Partition] | None,
    policy: Mapping[str, str],
    change: Callable[[str, LogState], LogState],
    door: Door | None,
) -> dict[str, LogState]:
    table.refresh()
    known = {str(v.partition) for v in read_logs(table, settings_of(table, policy))}
    wanted = sorted(known) if partitions is None else [str(p) for p in partitions]
    if missing := [p for p in wanted if p not in known]:
        raise BadInput(
            f"{table_name(table)}: there is no partition {missing[0]}, it has {', '.join(sorted(known)) or 'none'}."
        )
    states, base = trusted_states(table), table.metadata_location
    standing = write_state(states)
    while True:
        changed = {p: change(p, state_of(states, p)) for p in wanted}
        wished = write_state(states | changed)
        if wished == standing:
            return changed
        made = _commit(table, wished, door)
        replaced = _replaced(table, made, base) if made else None
        if made is None or replaced is None:
            return changed
        # the catalog compares snapshots alone, and somebody's state came in between: the change is theirs as well
        states, base, standing = (
            read_state(table_name(table), {STATE_PROPERTY: replaced}),
            made.metadata_location,
            wished,
        )


def _commit(table: Table, state: str, door: Door | None) -> CommitTableResponse | None:
    """What the catalog made of it; None when it compared the state itself."""
    current = table.current_snapshot()
    same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
    # a pass makes a snapshot, so this keeps its state from being overwritten
    fence = AssertRefSnapshotId(ref="main", snapshot_id=current.snapshot_id if current else None)
    return written(
        lambda: table.catalog.commit_table(
            table, (same_table, fence), (SetPropertiesUpdate(updates={STATE_PROPERTY: state}),)
        ),
        door,
        lambda properties: _instead(properties, table.properties.get(STATE_PROPERTY), state),
    )


def _instead(properties: Mapping[str, str], standing: str | None, wished: str) -> dict[str, str | None]:
    if properties.get(STATE_PROPERTY) != standing:
        raise CommitFailedException("the state has changed")
    return {STATE_PROPERTY: wished}


def _replaced(table: Table, made: CommitTableResponse, base: str) -> str | None:
    """The state that a commit took the place of, None when it is that of the metadata it was derived from."""
    log = made.metadata.metadata_log
    if not log or log[-1].metadata_file == base:
        return None
    return FromInputFile.table_metadata(table.io.new_input(log[-1].metadata_file)).properties.get(STATE_PROPERTY, "")


def _give_up() -> dict[str, LogState]:
    raise Conflict(f"the table changed during each of {TRIES} tries to set its state; run it again.")
