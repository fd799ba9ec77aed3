"""One operator: submit a verb of hardpack for a unit or a table, and give its report back as XCom."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException, AirflowTaskTimeout
from hardpack_airflow.assets import COMPACTED, asset_of, compacted
from hardpack_airflow.config import setting, unit_timeout, usual_catalog
from hardpack_airflow.failures import REFUSED, UNFORESEEN, WORTH_ANOTHER_TRY, task_failure, within
from hardpack_airflow.handover import plans_of, results_handed_on, results_of
from hardpack_airflow.idle import done_without_spark
from hardpack_airflow.lineage import lineage_of
from hardpack_airflow.links import DataDocsLink, SparkLink, TableLink
from hardpack_airflow.planning import planning_time, unit_of_table
from hardpack_airflow.report import VERBS
from hardpack_airflow.s3_copy import pages_of, upload_or_warn

VERIFY = VERBS[-1]
MAINTAIN = "maintain"
LEAVES_THE_REST = (UNFORESEEN, 5)
"""Exit codes of errors after which an application begins no further plan, and leaves those to another one."""
OVER = (
    "its Spark application took longer than it may, and was ended; that is unit.timeout.ms of its policy, or "
    "unit_timeout_ms of [hardpack] where no policy's run is it"
)
MOST_FRUITLESS = 2
"""Spark applications in a row in which no plan went well; after so many no other is started."""


class HardpackOperator(SparkSubmitOperator):
    """Runs `hardpack/jobs/<verb>.py` on the plans of one unit in one Spark application; the driver dies with the task.

    A broken guarantee or bad input fails at once; a conflict or a service that does not answer is retried. A table of
    the unit that cannot be cleaned does not stop the others: the task fails when all are done, and the next verb, with
    trigger rule `all_done`, goes on with the others.

    In a DAG of your own name a table: `HardpackOperator(task_id="clean", table="db.orders", verb="phase_one")`. What
    there is to do is then planned when the task runs, and the task does nothing when nothing is due.

    :param verb: phase_one, phase_two, verify or maintain
    :param unit: `label`, and `plans` or the `file` that holds them (see `hardpack_airflow.handover`); perhaps the
        `catalog` of its tables, or the `error` that is why there are no plans (templated)
    :param table: a table, in place of a unit (templated)
    :param catalog: where the tables are, as pyiceberg's configuration names it; empty: the usual one (templated)
    :param partitions: only these logs of the table; empty for all
    :param force: clean whatever is cleanable of the table, whatever the dirty ratio
    :param fails_in_report: when some of several tables cannot be worked on, a later task fails in place of this one
    :param conn_id: Airflow's Spark connection; empty: as `[hardpack] spark_conn_id` says
    :param driver_memory: memory of the driver, as 4g; empty: as `[hardpack] driver_memory` says
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "unit", "table", "catalog")
    operator_extra_links = (DataDocsLink(), TableLink(), SparkLink())

    def __init__(
        self,
        *,
        verb: str,
        unit: Any = None,
        table: str = "",
        catalog: str = "",
        partitions: Sequence[str] = (),
        force: bool = False,
        fails_in_report: bool = False,
        conn_id: str = "",
        driver_memory: str = "",
        **kwargs: Any,
    ) -> None:
        if verb not in (*VERBS, MAINTAIN):
            raise ValueError(f"verb is {verb!r}, expected one of {', '.join((*VERBS, MAINTAIN))}.")
        if partitions and verb == MAINTAIN:
            raise ValueError("maintain is of a whole table; leave partitions out.")
        if (unit is None) == (not table):
            raise ValueError("HardpackOperator works on a unit or on a table; give it one of these.")
        # both are parameters of their own above, so that a DAG's default_args apply to them
        kwargs |= {"conn_id": conn_id or setting("spark_conn_id")}
        kwargs |= {"driver_memory": driver_memory or setting("driver_memory")}
        kwargs.setdefault("name", f"hardpack-{verb}")
        # a driver elsewhere could not be watched by its task, whatever the connection says
        kwargs.setdefault("deploy_mode", "client")
        if verb == VERIFY:
            kwargs.setdefault("outlets", [COMPACTED])
        super().__init__(**kwargs)
        if self.execution_timeout is None and "execution_timeout" not in kwargs:
            self.execution_timeout = unit_timeout()
        self.verb, self.unit, self.table, self.partitions, self.force = verb, unit, table, list(partitions), force
        self.catalog, self.fails_in_report = catalog, fails_in_report
        self.plans: list[str] = []
        self.results: list[dict[str, Any]] = []

    # the type differs from the base operator's, whose execute returns nothing
    def execute(self, context: Context) -> Any:
        """Submits the verb and waits; returns for each plan its report, or the error that ended the work on it."""
        if self.unit is None:
            self.unit = self._planned(planning_time(context))
        if "error" in self.unit:
            raise AirflowFailException(self.unit["error"])
        self.catalog = self.unit.get("catalog") or self.catalog or usual_catalog()
        self.log.info("%s of %s", self.verb, self.unit["label"])
        self.plans = plans_of(self.unit)
        if not self.plans:
            self.log.info("nothing is due: %s", "; ".join(self.unit["reasons"]))
            return []
        results = self._before(context) or [{} for _ in self.plans]
        going = [n for n, result in enumerate(results) if "error" not in result]
        done = self._work_on(context, [self.plans[n] for n in going])
        for number, result in zip(going, done, strict=True):
            results[number] = result
        upload_or_warn(page for result in done for page in pages_of(result))
        self.results = results
        self._warn_of_what_was_left(results)
        failures = [result for result in done if "error" in result]
        again = self._may_help(context, failures)
        if not again:
            for number, result in enumerate(results):
                if self.verb == VERIFY and "error" not in result:
                    self._add_asset_event(context, number, result["table"])
        # if this task failed, Airflow would drop the events of tables whose guarantees hold; so the report fails
        left_to_report = self.fails_in_report and not again
        if (failures and not left_to_report) or all("error" in result for result in results):
            # a task that fails returns nothing, but the next verb and the run's report need the results
            context["ti"].xcom_push(key="return_value", value=self._handed_on(context, results))
            raise (AirflowException if again else AirflowFailException)(_said(failures or results))
        for failure in failures:
            self.log.error("%s", failure["error"])
        return self._handed_on(context, results)

    def _warn_of_what_was_left(self, results: Sequence[dict[str, Any]]) -> None:
        """Logs why maintenance left files or snapshots; what passes left is in the run's report."""
        for result in results if self.verb == MAINTAIN else ():
            for note in result.get("notes", ()):
                self.log.warning("%s: %s", result["table"], note)

    @staticmethod
    def _handed_on(context: Context, results: list[dict[str, Any]]) -> Any:
        ti = context["ti"]
        return results_handed_on(results, ti.dag_id, ti.run_id, f"{ti.task_id}.{max(ti.map_index or 0, 0)}")

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """Returns the tables that the task read and wrote, for Airflow's OpenLineage provider."""
        return lineage_of(self.catalog, self.results)

    def _planned(self, now: int) -> dict[str, Any]:
        try:
            catalog = self.catalog or usual_catalog()
            return unit_of_table(catalog, self.table, self.verb, now, self.partitions or None, self.force)
        except Exception as error:  # whatever it is, the task fails with its sentence
            raise task_failure(error) from error

    def _before(self, context: Context, verb: str | None = None) -> list[dict[str, Any]]:
        """Returns a verb's results for the unit, by default those of the verb before this one.

        Returns an empty list when there are none, or when they are of other tables than the plans.

        Raises:
            AirflowFailException: the verb's task, on which this one waits, ended without a result.
        """
        verb = verb or dict(zip(VERBS[1:], VERBS, strict=False)).get(self.verb)
        if not verb:
            return []
        ti, group = context["ti"], self.task_id.removesuffix(self.verb)
        task = f"{group}{verb}"
        returned = ti.xcom_pull(task_ids=task, map_indexes=ti.map_index)
        if returned is None and task in self.upstream_task_ids:
            raise AirflowFailException(f"{task} was ended before it left a result; see its log, then clear it.")
        # the unit may have been planned anew since, and then these are of other tables
        results = results_of(returned)
        fits = [result["table"] for result in results] == [table_of(plan) for plan in self.plans]
        return results if fits else []

    @staticmethod
    def _may_help(context: Context, failures: Sequence[dict[str, Any]]) -> bool:
        """Returns whether another try may help.

        After a refusal it does not: the log is marked, and the next try would pass over it.
        """
        codes = {failure["exit_code"] for failure in failures}
        ti = context["ti"]
        return bool(codes.intersection(WORTH_ANOTHER_TRY)) and REFUSED not in codes and ti.try_number <= ti.max_tries

    def _work_on(self, context: Context, plans: Sequence[str]) -> list[dict[str, Any]]:
        """Returns a result for each plan; starts Spark for those plans whose rows have to be read."""
        # a home that only the driver is given may hold expectations that this process does not see
        elsewhere = self.verb == VERIFY and {"HARDPACK_HOME", "HOME"} & (self.env_vars or {}).keys()
        idle = [None for _ in plans] if elsewhere else done_without_spark(self.verb, plans, self.catalog)
        busy = [plan for plan, nothing in zip(plans, idle, strict=True) if nothing is None]
        if len(busy) < len(plans):
            self.log.info("of %d tables no row has to be read, as their metadata tells", len(plans) - len(busy))
        done = iter(self._submit_all(context, busy))
        # each result names its catalog, also that of a failed table, as the task's links need it
        return [{"catalog": self.catalog, **(nothing or next(done))} for nothing in idle]

    def _submit_all(self, context: Context, plans: Sequence[str]) -> list[dict[str, Any]]:
        """Returns a result for each plan. When an application dies, another one goes on with the plans that are left.

        Which of several plans it died of is unknown, so the next application works on one after the other.
        """
        done: dict[int, dict[str, Any]] = {}
        fruitless, one_by_one, died = 0, False, ""
        while (left := [n for n in range(len(plans)) if n not in done]) and fruitless < MOST_FRUITLESS and died != OVER:
            results, died = self._submit(context, [plans[n] for n in left], one_by_one)
            some = {left[place]: result for place, result in enumerate(results) if result}
            if died and died != OVER and (one_by_one or len(left) == 1):
                first = next(n for n in left if n not in some)
                table = table_of(plans[first])
                said = f"{table}: its Spark application ended before its time, see the task's log ({died})"
                some[first] = {"table": table, "error": said, "exit_code": UNFORESEEN, "died": True}
            one_by_one = one_by_one or bool(died)
            if some:
                fruitless = fruitless + 1 if all("error" in result for result in some.values()) else 0
            done |= some
        over, codes = died == OVER, [result["exit_code"] for result in done.values() if "error" in result]
        code = UNFORESEEN if over or not codes else codes[-1]
        why = OVER if over else "not tried, as others of its unit could not be worked on"
        for n in range(len(plans)):
            table = table_of(plans[n])
            done.setdefault(n, {"table": table, "error": f"{table}: {why}", "exit_code": code, "died": over})
        return [done[n] for n in range(len(plans))]

    def _submit(
        self, context: Context, plans: Sequence[str], one_by_one: bool
    ) -> tuple[list[dict[str, Any] | None], str]:
        """Runs one application; returns its results in the order of the plans, and how it died, or an empty string.

        An application whose time was over died of `OVER`; the results that it left before count.
        """
        from hardpack.spark.java_start import driver_class_path, java_options
        from hardpack.spark.session import jar_paths

        self.application, jars = str(job_file(self.verb)), jar_paths()
        self.jars = ",".join(map(str, jars)) or None
        self.driver_class_path = self.driver_class_path or driver_class_path(jars) or None
        self.conf = {"spark.driver.extraJavaOptions": java_options(jars, short_life=True)} | (self.conf or {})
        with tempfile.TemporaryDirectory(prefix="hardpack-", ignore_cleanup_errors=True) as scratch:
            files, result = [Path(scratch, f"plan_{n}.json") for n in range(len(plans))], Path(scratch, "result.json")
            for file, plan in zip(files, plans, strict=True):
                file.write_text(plan)
            self.application_args = [
                "--task", str(os.getpid()), "--catalog", self.catalog, "--result", str(result),
                *(["--one-by-one"] if one_by_one else []), "--plan", *map(str, files),
            ]  # fmt: skip
            died, done = "", list[dict[str, Any] | None]()
            # a hook that is kept would start the next application with the arguments of the last
            self._hook = None
            try:
                with within("unit.timeout.ms"):
                    super().execute(context)
            except AirflowException as error:
                # the message names the command line with all jars before its reason, which is its last sentence
                self.log.warning("%s", error)
                died = str(error).rpartition(". ")[2].rstrip(".")
            except AirflowTaskTimeout:
                died, done = OVER, _results_in(result)
                # the results are read before: an application that is ended reports an error of the table it is at
                self.on_kill()
            results = done if died == OVER else _results_in(result)
        # an application that ends by itself leaves a result of every plan, or an error that leaves plans to another
        left = any(one and one.get("exit_code") in LEAVES_THE_REST for one in results)
        ended = all(results) and (left or len(results) == len(plans))
        return results, "" if results and ended and died != OVER else died or "no result"

    def _add_asset_event(self, context: Context, number: int, table: str) -> None:
        """Adds an event of the table's asset with what one plan's passes did, log by log; none if none published."""
        results = {verb: self._before(context, verb) for verb in VERBS[:-1]}
        passes = {verb: reports[number] for verb, reports in results.items() if reports}
        done = {verb: report for verb, report in passes.items() if report.get("snapshot")}
        if done:
            extra: dict[str, Any] = {verb: compacted(report) for verb, report in done.items()}
            context["outlet_events"][COMPACTED].add(asset_of(self.catalog, table), extra=extra)


def _results_in(file: Path) -> list[dict[str, Any] | None]:
    """Returns the results that an application has written so far."""
    return list(json.loads(file.read_text())) if file.is_file() else []


def table_of(plan: str) -> str:
    """Returns the table of a plan or request."""
    return str(json.loads(plan)["table"])


def _said(results: Sequence[dict[str, Any]]) -> str:
    return "; ".join(result["error"] for result in results if "error" in result)


def job_file(verb: str) -> Path:
    """Returns the file that spark-submit is given for a verb; it is part of the installed package."""
    import hardpack.jobs

    return Path(hardpack.jobs.__file__).with_name(f"{verb}.py")
