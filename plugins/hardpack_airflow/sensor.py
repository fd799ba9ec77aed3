"""The sensor that asks whether a log is due. It looks inside its task, starts no JVM, and waits in the triggerer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException, AirflowSkipException
from hardpack_airflow.config import globs, usual_catalog
from hardpack_airflow.failures import within
from hardpack_airflow.metrics import send
from hardpack_airflow.planning import is_by_hand, kind_of, plan_units, run_interval, run_time, see_that_the_form_counts
from hardpack_airflow.trigger import DirtyLogsTrigger, event_of, failed, patient

MOST_SAID = 20
"""Most reasons in the sentence of a task that is skipped."""


class DirtyLogsSensor(BaseSensorOperator):
    """Ends well when a log of the tables is due, else is skipped and says why.

    :param policy: the policy, JSON
    :param tables: tables or globs such as `db.*`, with commas between (templated)
    :param partitions: JSON list of logs, empty for all (templated)
    :param force: JSON boolean, clean whatever is cleanable (templated)
    :param wait: seconds to go on looking before giving up; 0 looks once
    """

    template_fields: Sequence[str] = ("tables", "partitions", "force")

    def __init__(
        self,
        *,
        policy: str,
        tables: str,
        partitions: str = "[]",
        force: str = "false",
        wait: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy, self.tables, self.partitions, self.force, self.wait = policy, tables, partitions, force, wait

    def execute(self, context: Context) -> Any:
        """Look once; hand over to the trigger only when nothing is due yet and there is time to wait."""
        question = asked(self.policy, self.tables, self.partitions, self.force, context)
        try:
            with within("look.timeout.ms"):
                event = event_of(patient(plan_units)(**question))
        except Exception as error:  # whatever it is, the task fails with its sentence
            event = failed(error)
        if self.wait > 0 and not ("failure" in event or event["due"] or event["errors"]):
            by_clock = kind_of(context["dag_run"]) not in ("scheduled", "backfill")
            trigger = DirtyLogsTrigger(question, self.wait, self.poke_interval, by_clock)
            timeout = timedelta(seconds=self.wait + self.timeout)
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
        return self.execute_complete(context, event)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Say what was seen; skip when nothing is due."""
        if "failure" in event:
            raise (AirflowFailException if event.get("hopeless") else AirflowException)(event["failure"])
        send(json.loads(self.policy)["name"], event["gauges"])
        for line in event["reasons"]:
            self.log.info("%s", line)
        for line in event["errors"]:
            self.log.error("%s", line)
        if event["errors"] and not event["due"]:
            raise (AirflowFailException if event.get("lasting", True) else AirflowException)("; ".join(event["errors"]))
        run = context["dag_run"]
        if not event["due"] and not event["reasons"] and is_by_hand(run):
            raise AirflowFailException(f"{self.tables}: no adopted table matches; mend the name or glob.")
        if not event["due"]:
            first = "; ".join(event["reasons"][:MOST_SAID]) or "no adopted table matches"
            raise AirflowSkipException(f"no log is due: {first}")
        # the reasons are in the log alone, as Airflow keeps what is returned in its database
        return {"due": True, "tables": event["tables"], "held": event["held"]}


def asked(policy: str, tables: str, partitions: str, force: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `plan_units` from a DAG's rendered parameters and its run."""
    see_that_the_form_counts(context)
    given = _read(policy)
    # Airflow gives a proxy, which is not None even when it stands for None, but is then false
    previous = context.get("prev_start_date_success")
    return {
        "catalog": given.get("catalog") or usual_catalog(),
        "policy": given,
        "tables": globs(tables),
        "partitions": _read(partitions) or None,
        "force": bool(_read(force)),
        "now": run_time(context),
        "interval": run_interval(context),
        "previous": int(previous.timestamp() * 1000) if previous else None,
    }


def _read(rendered: Any) -> Any:
    """Returns a value that a template rendered as JSON, or as itself where the DAG renders native objects."""
    return json.loads(rendered) if isinstance(rendered, str) else rendered
