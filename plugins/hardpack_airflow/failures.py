"""How an error of the library ends a task: at once, or with another try."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException, AirflowTaskTimeout

log = logging.getLogger(__name__)
UNFORESEEN, REFUSED = 1, 3
WORTH_ANOTHER_TRY = (UNFORESEEN, 4, 5)
"""Exit codes of what nobody foresaw, a conflict and a service that did not answer: trying again may help."""
TIMED_OUT = {
    "look.timeout.ms": "the look at the tables' metadata took longer than {0} allows; see that catalog and storage "
    "answer, or raise {0} in the policy",
    "unit.timeout.ms": "the Spark application took longer than {0} allows, and was ended; see in its log whether it "
    "went on to the end, then raise {0} in the policy, or lower unit.bytes; outside a policy's DAG it is "
    "unit_timeout_ms of [hardpack] that has to be longer, or the task's own execution_timeout",
}
"""By the setting of a policy, what is said when its time is over."""


def hopeless(error: Exception) -> bool:
    """Returns whether another try cannot help: the input is bad, or somebody has to mend the table."""
    return type(error).__name__ in ("BadInput", "Unreadable")


def task_failure(error: Exception) -> AirflowException:
    """Returns what a task raises in the place of an error, with its sentence."""
    from hardpack.failures import as_hardpack_error

    problem = as_hardpack_error(error)
    return (AirflowFailException if hopeless(problem) else AirflowException)(str(problem))


@contextmanager
def within(setting: str) -> Iterator[None]:
    """Says in the task's log whose time is over, when Airflow ends what is done meanwhile; it says only that it did.

    Args:
        setting: of the policy, one of `TIMED_OUT`.
    """
    try:
        yield
    except AirflowTaskTimeout:
        log.error("%s.", TIMED_OUT[setting].format(setting))
        raise
