"""The last task of a run: it writes the run's report, and fails when a table could not be cleaned."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException
from hardpack_airflow.config import globs, setting, usual_catalog
from hardpack_airflow.handover import plans_of, results_of
from hardpack_airflow.links import ReportLink
from hardpack_airflow.metrics import send
from hardpack_airflow.planning import kind_of, run_time
from hardpack_airflow.report import (
    DAY_SECONDS,
    VERBS,
    forget_reports,
    gauges,
    lines,
    unit_errors,
    units_that_died,
    write_report,
)
from hardpack_airflow.s3_copy import upload_or_warn


class ReportOperator(BaseOperator):
    """Writes the run's report, also when every unit failed, and returns the file's path.

    :param policy: the name of the run's policy
    :param tables: the tables and globs that the policy names
    :param catalog: where its tables are; empty: the usual one
    """

    operator_extra_links = (ReportLink(),)

    def __init__(self, *, policy: str, tables: Sequence[str] = (), catalog: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.policy, self.tables, self.catalog = policy, list(tables), catalog

    def execute(self, context: Context) -> str:
        """Sums up the units; fails with the sentence of each table that could not be cleaned."""
        from hardpack.home import default_home
        from hardpack.operations.gauges import died

        ti = context["ti"]
        units = ti.xcom_pull(task_ids="plan")
        numbers = list(range(len(units or ())))
        pulled = {v: [*map(_results, ti.xcom_pull(task_ids=f"unit.{v}", map_indexes=numbers))] for v in VERBS}
        results = {v: [one for unit in of_verb for one in unit if "error" not in one] for v, of_verb in pulled.items()}
        errors = list(ti.xcom_pull(task_ids="plan", key="errors") or ())
        if units is None and not errors:
            errors.append("nothing was planned, see the tasks sense and plan")
        unread = [one["error"] for of_verb in pulled.values() for unit in of_verb for one in unit if one.get("unread")]
        errors = list(dict.fromkeys([*errors, *unit_errors(pulled), *unread]))
        run = context["dag_run"]
        path = write_report(
            run.dag_id, run.run_id, self.catalog or usual_catalog(), run_time(context), results, errors,
            plans=self._plans_of(units or ()),
            held=ti.xcom_pull(task_ids="plan", key="held") or (),
        )  # fmt: skip
        for line in lines(results):
            self.log.info("%s", line)
        sent = gauges(results, units_that_died(pulled))
        # a run that did not look at the whole policy does not know how many units died on the other tables
        whole = units is not None and self._is_whole(context)
        send(self.policy, sent if whole else {k: v for k, v in sent.items() if k not in died(0)})
        upload_or_warn([path])
        self._forget(default_home())
        if errors:
            # a task that fails returns nothing, but its link needs the path
            ti.xcom_push(key="return_value", value=str(path))
            raise AirflowFailException("; ".join(errors))
        return str(path)

    def _plans_of(self, units: Sequence[dict[str, Any]]) -> list[str]:
        """Returns the plans of a run's units, without those that cannot be read: the report then says less."""
        plans: list[str] = []
        for unit in units:
            try:
                plans += plans_of(unit)
            except AirflowException as error:
                self.log.warning("the report does not say why %s was planned: %s", unit["label"], error)
        return plans

    def _is_whole(self, context: Context) -> bool:
        """Returns whether a run was over all tables and logs of the policy, and was no backfill."""
        form = context["params"]
        everything = set(globs(form["tables"])) == set(self.tables) and not form["partitions"]
        return everything and kind_of(context["dag_run"]) != "backfill"

    def _forget(self, home: Path) -> None:
        """Once a day removes old reports and what belongs to them, in a quarter of the task's time at most."""
        given = setting("report_days")
        try:
            # a day at least, so that no run removes its own report
            days = max(1.0, float(given))
        except ValueError:
            self.log.error("[hardpack] report_days is %r, expected a number of days; no old report is removed", given)
            return
        now, stamp = time.time(), home / "swept"
        # a home may have millions of files, and to look at all of them takes minutes
        with suppress(FileNotFoundError):
            if 0 <= now - stamp.stat().st_mtime < DAY_SECONDS:
                return
        try:
            stamp.touch()
        except OSError as error:  # the run's work is done, and somebody else may sweep
            self.log.warning("no old report is removed, as %s cannot be written: %s", stamp, error)
            return
        seconds = self.execution_timeout.total_seconds() / 4 if self.execution_timeout else math.inf
        if gone := forget_reports(home, now - days * DAY_SECONDS, now - _longest_run_seconds(), seconds):
            self.log.info("%d files of reports older than %g days are gone", gone, days)


def _results(returned: Any) -> list[dict[str, Any]]:
    """Returns a verb's results for a unit, or the error why their file cannot be read, so that the report goes on."""
    try:
        return results_of(returned)
    except AirflowException as error:
        return [{"error": f"{error}", "unread": True}]


def _longest_run_seconds() -> float:
    """Returns how long a run of any policy may take."""
    from hardpack.errors import BadInput
    from hardpack.policy import Policy
    from hardpack.policy.file import policies_in_force

    usual = int(Policy.model_fields["run_timeout_ms"].default)
    try:
        policies = policies_in_force()
    except BadInput:  # Airflow shows it as an import error of the DAG file
        policies = None
    return max([usual, *(policy.run_timeout_ms for policy in (policies.policies if policies else ()))]) / 1000
