"""Commits that change nothing but states of logs: pauses, marks, and what is recorded between passes.

Each is a snapshot that adds nothing. Catalogs compare a table's snapshot when they swap its metadata, but not its
properties. With a snapshot for each change, no catalog loses one of two changes that are made at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from hardpack.compaction.planning import wanted_logs
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput, Conflict, GateRefused, HardpackError
from hardpack.rules.model import LogState, LogView, Partition
from hardpack.rules.settings import Settings
from hardpack.spark.commit import CommitChange, TableAtCommit
from hardpack.table.history import CONTROL, Record, carried, summary_of, trusted_states
from hardpack.table.layout import FIELDS
from hardpack.table.packing import PassFolder
from hardpack.table.state import PLAN_SUMMARY, STATE_PROPERTY, read_state, state_of, write_state

log = logging.getLogger(__name__)
TRIES = 8
WRITTEN_BY_PYICEBERG = 2
"""The greatest format version of which pyiceberg writes snapshots."""

Changed = Callable[[LogView, LogState], LogState]
"""Makes the new state of a log from its view and its present state."""


@contextmanager
def refused_logs_marked(session: TableSession) -> Iterator[None]:
    """Marks the logs of a pass as uncleanable if a gate refuses the pass inside this context; the refusal goes on."""
    try:
        yield
    except GateRefused as refusal:
        try:
            mark_uncleanable(session, refusal.partitions, "a pass would have broken a guarantee")
        except HardpackError as error:
            log.warning("the logs could not be marked uncleanable: %s", error)
        raise


def mark_uncleanable(session: TableSession, partitions: Iterable[Partition], reason: str) -> dict[str, LogState]:
    """Marks logs as uncleanable until somebody resumes them; Kafka forgets such a mark only when the broker restarts.

    Args:
        session: the table's.
        partitions: which logs.
        reason: why, for people.
    """
    return alter_states(session, "mark", partitions, lambda _, state: replace(state, uncleanable=reason))


@retry(
    retry=retry_if_exception(lambda error: type(error) in (CommitFailedException, Conflict)),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    retry_error_callback=lambda attempt: _give_up(attempt.args[0]),
)
def alter_states(
    session: TableSession,
    verb: str,
    partitions: Iterable[Partition] | None,
    change: Changed,
    settings: Settings | None = None,
) -> dict[str, LogState]:
    """Changes the states of some logs, and commits them if one has changed.

    Args:
        session: the table's; its table is loaded anew.
        verb: what the commit is called.
        partitions: which logs, None for all.
        change: makes the new state of a log.
        settings: by which the logs are read; None for the table's own.

    Returns:
        The states of all logs that were asked for, by partition.

    Raises:
        BadInput: a partition that the table has not, or a pause where no log is known before mixed files are split.
        Conflict: the table changed during each try.
    """
    table = session.table
    table.refresh()
    wanted = None if partitions is None else list(partitions)
    logs = wanted_logs(table, settings or session.settings, wanted)
    if logs.mixed and not logs.views and verb == "pause":
        raise BadInput(
            f"{session.name}: no log is known before {len(logs.mixed)} files that may hold rows of several are split; "
            f"`hardpack split {session.name}` does it."
        )
    views = {view.name: view for view in logs.views}
    states = trusted_states(table)
    changed = {name: change(view, state_of(states, name)) for name, view in views.items()}
    on_record = read_state(session.name, table.properties)
    # after a rollback the property may already say the new state, which counts only once a commit says it
    stands = all(state == state_of(states, name) for name, state in changed.items())
    if stands and all(state == state_of(on_record, name) for name, state in (states | changed).items()):
        return changed
    summary = {
        PLAN_SUMMARY: CONTROL + verb,
        FIELDS: table.properties.get(FIELDS, ""),
        STATE_PROPERTY: PassFolder.of(table).kept(write_state(changed)),
    }
    try:
        _commit(table, write_state(states | changed), summary)
    except NotImplementedError:
        _commit_by_jvm(session, summary, write_state(states | changed))
    return changed


class _Plain(Table):
    """A table that never runs code which its own properties name."""

    def location_provider(self) -> LocationProvider:
        """Places new metadata beside the old, or where the table's properties say."""
        named = {k: v for k, v in self.properties.items() if k != TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL}
        return load_location_provider(self.location(), named)


def _commit(table: Table, state: str, summary: dict[str, str]) -> None:
    """Sets the state in one commit with a snapshot that adds nothing; the commit fails when the table has moved on.

    Raises:
        CommitFailedException: the table has moved on.
        NotImplementedError: pyiceberg does not write the table's format.
    """
    if table.metadata.format_version > WRITTEN_BY_PYICEBERG:
        raise NotImplementedError(f"pyiceberg writes no snapshots of format {table.metadata.format_version}")
    # committed by pyiceberg, the transaction would be tried again after a conflict, with this very state
    transaction = Transaction(_Plain(table.name(), table.metadata, table.metadata_location, table.io, table.catalog))
    current = table.current_snapshot()
    carried_on = carried(summary_of(current)) if current else {}
    producer = transaction.update_snapshot({**carried_on, **summary}).fast_append()
    updates, requirements = producer._commit()
    same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
    properties = SetPropertiesUpdate(updates={STATE_PROPERTY: state})
    table.catalog.commit_table(table, (same_table, *requirements), (*updates, properties))


def _commit_by_jvm(session: TableSession, summary: dict[str, str], state: str) -> None:
    """Sets the state in one commit through Iceberg's JVM API, which writes every format.

    Raises:
        Conflict: the table has moved on.
    """
    table, record, base = session.table, Record.of(session.table), session.base

    def properties(at_commit: TableAtCommit) -> dict[str, str]:
        if moved := record.why_moved(base, at_commit.ancestors):
            raise Conflict(f"{session.name}: {moved}; try again.")
        if at_commit.properties.get(STATE_PROPERTY) != table.properties.get(STATE_PROPERTY):
            raise Conflict(f"{session.name}: somebody else changed the state of its logs meanwhile; try again.")
        return {STATE_PROPERTY: state}

    session.jvm.commit(-1 if base is None else base, CommitChange((), (), properties, summary))


def _give_up(session: TableSession) -> dict[str, LogState]:
    raise Conflict(f"{session.name}: the table changed during each of {TRIES} tries to set its state; run it again.")
