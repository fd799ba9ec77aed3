"""The task that asks a policy's readers how far they are, before its run looks for tombstones that may go."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context, task

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException, AirflowSkipException
from hardpack_airflow.config import usual_catalog
from hardpack_airflow.failures import WORTH_ANOTHER_TRY, task_failure, within
from hardpack_airflow.planning import see_that_the_form_counts

if TYPE_CHECKING:
    from hardpack.policy import Policy

log = logging.getLogger(__name__)


def ask_readers_task(policy: Policy) -> Any:
    """Returns the task that asks all readers of a policy, and then fails when one of them could not be asked."""
    sources = json.dumps([source.model_dump(mode="json", by_alias=True) for source in policy.readers])
    catalog = policy.catalog

    @task(task_id="readers")
    def readers() -> None:
        """Records how far each reader is."""
        see_that_the_form_counts(get_current_context())
        if get_current_context()["params"]["dry_run"]:
            raise AirflowSkipException("a dry run records nothing")
        with within("look.timeout.ms"):
            ask(catalog or usual_catalog(), sources)

    return readers()


def fail_if_not_asked_task() -> Any:
    """Returns the task that fails a run whose readers could not be asked; no other task waits for it."""

    @task(task_id="readers_asked", trigger_rule="one_failed", retries=0)
    def told() -> None:
        """Fails, as the run would else end well."""
        raise AirflowFailException("a reader could not be asked, so its deletes wait; see the task readers.")

    return told()


def ask(catalog: str, sources: str) -> None:
    """Asks readers how far they are, and records it in their tables.

    Args:
        catalog: its name in pyiceberg's configuration.
        sources: JSON list of `ReaderSource`: the readers, and where the position of each is asked for.

    Raises:
        AirflowException: a broker or storage does not answer.
        AirflowFailException: another try would not help.
    """
    from hardpack import Hardpack
    from hardpack.rules.reader_source import ReaderSource

    wanted = [ReaderSource.model_validate(source) for source in json.loads(sources)]
    try:
        with Hardpack.connect(catalog) as hp:
            answers = list(hp.follow_readers(wanted))
    except Exception as error:  # whatever it is, the task fails with its sentence
        raise task_failure(error) from error
    for one in answers:
        log.log(logging.ERROR if one.exit_code else logging.INFO, "%s", one.said)
    if failed := [one for one in answers if one.exit_code]:
        kind = AirflowException if any(one.exit_code in WORTH_ANOTHER_TRY for one in failed) else AirflowFailException
        raise kind("; ".join(one.said for one in failed))
