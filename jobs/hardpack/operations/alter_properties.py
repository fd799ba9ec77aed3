"""Changes a table's properties by pyiceberg, or by Iceberg's JVM API where pyiceberg does not write the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.exceptions import CommitFailedException
from tenacity import RetryCallState, retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from hardpack.compaction.alter_states import TRIES
from hardpack.compaction.session import TableSession
from hardpack.errors import Conflict
from hardpack.rules.settings import PREFIX


def _load_anew(attempt: RetryCallState) -> None:
    """Loads the table anew before another try.

    Raises:
        Conflict: hardpack's properties or the columns have changed, so that earlier checks no longer hold.
    """
    session: TableSession = attempt.args[0]
    before = _checked(session)
    session.table.refresh()
    if _checked(session) != before:
        raise Conflict(f"{session.name}: somebody changed the table's settings or columns meanwhile; run it again.")


def _checked(session: TableSession) -> tuple[dict[str, str], int]:
    own = {name: value for name, value in session.table.properties.items() if name.startswith(PREFIX)}
    return own, session.table.metadata.current_schema_id


def _give_up(attempt: RetryCallState) -> None:
    raise Conflict(f"{attempt.args[0].name}: the table changed during each of {TRIES} tries; run it again.")


@retry(
    retry=retry_if_exception_type(CommitFailedException),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    before_sleep=_load_anew,
    retry_error_callback=_give_up,
)
def alter_properties(session: TableSession, wanted: Mapping[str, str], gone: Sequence[str] = ()) -> None:
    """Sets and removes properties of a table in one commit.

    Args:
        session: the table's.
        wanted: the properties to set, by name.
        gone: names of properties to remove; those that are not there are passed over.

    Raises:
        Conflict: another writer changed the table during each try, or its settings or columns during one.
    """
    to_remove = [name for name in gone if name in session.table.properties]
    try:
        with session.table.transaction() as transaction:
            transaction.set_properties(dict(wanted))
            if to_remove:
                transaction.remove_properties(*to_remove)
    except NotImplementedError:
        # pyiceberg does not write the metadata of every format
        session.jvm.alter(lambda _: {**wanted, **dict.fromkeys(to_remove)})
