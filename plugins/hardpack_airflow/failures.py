"""How an error of the library ends a task: at once, or with another try."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException, AirflowTaskTimeout

log = logging.getLogger(__name__)
UNFORESEEN, REFUSED = 1, 3
WORTH_ANOTHER_TRY = (UNFORESEEN, 4, 5)
"""Exit codes after which another try may help: an unforeseen error, a conflict, a service that did not answer."""
TIMED_OUT = {
    "look.timeout.ms": "the look at the tables' metadata took longer than {0} allows; see that catalog and storage "
    "answer, or raise {0} in the policy",
    "unit.timeout.ms": "the Spark application took longer than {0} allows, and was ended; see in its log whether it "
    "went on to the end, then raise {0} in the policy, or lower unit.bytes; outside a policy's DAG it is "
    "unit_timeout_ms of [hardpack] that has to be longer, or the task's own execution_timeout",
}
"""What the log says when a time limit is over, by the policy's setting of that limit."""


def hopeless(error: Exception) -> bool:
    """Returns whether another try cannot help: the input is bad, or somebody has to mend the table."""
    return type(error).__name__ in ("BadInput", "Unreadable")


def task_failure(error: Exception) -> AirflowException:
    """Returns the exception that a task raises in place of an error, with the error's sentence.

    It is an `AirflowFailException`, which ends all tries, when another try cannot help.
    """
    from hardpack.failures import as_hardpack_error

    problem = as_hardpack_error(error)
    return (AirflowFailException if hopeless(problem) else AirflowException)(str(problem))


@contextmanager
def within(setting: str) -> Iterator[None]:
    """Logs which setting's time is over when Airflow ends the block; Airflow itself says only that it ended the task.

    Args:
        setting: the policy's setting that limits the block, one of `TIMED_OUT`.
    """
    try:
        yield
    except AirflowTaskTimeout:
        log.error("%s.", TIMED_OUT[setting].format(setting))
        raise
