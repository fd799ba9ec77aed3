"""One operator: submit a verb of hardpack for one unit, and give its report back as XCom."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from hardpack_airflow.assets import COMPACTED, asset_of, compacted
from hardpack_airflow.config import setting
from hardpack_airflow.links import DataDocsLink, SparkLink, TableLink
from hardpack_airflow.publish import pages_of, publish

VERIFY = "verify"
AGAIN = (1, 4, 5)
"""Exit codes of what nobody foresaw, a conflict and a service that did not answer: trying again may help."""


class HardpackOperator(SparkSubmitOperator):
    """Runs `jobs/<verb>.py` on the plan of one unit; the driver dies with the task.

    A broken guarantee or bad input fails at once; a conflict or a service that does not answer is retried.

    :param verb: phase_one, phase_two or verify
    :param unit: `label` and `plan` as `hardpack_airflow.look` made them (templated)
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "unit")
    operator_extra_links = (DataDocsLink(), TableLink(), SparkLink())

    def __init__(self, *, verb: str, unit: Any, **kwargs: Any) -> None:
        kwargs.setdefault("conn_id", setting("spark_conn_id"))
        kwargs.setdefault("driver_memory", setting("driver_memory"))
        kwargs.setdefault("name", f"hardpack-{verb}")
        if verb == VERIFY:
            kwargs.setdefault("outlets", [COMPACTED])
        super().__init__(**kwargs)
        self.verb, self.unit = verb, unit

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit, wait, and read the report."""
        from hardpack.spark.session import jar_paths

        self.log.info("%s of %s", self.verb, self.unit["label"])
        self.application = str(job_file(self.verb))
        self.jars = ",".join(map(str, jar_paths())) or None
        if shutil.which("spark3-submit"):
            self._spark_binary = "spark3-submit"
        with tempfile.TemporaryDirectory(prefix="hardpack-") as scratch:
            plan, result = Path(scratch, "plan.json"), Path(scratch, "result.json")
            plan.write_text(self.unit["plan"])
            self.application_args = ["--catalog", setting("catalog"), "--plan", str(plan), "--result", str(result)]
            try:
                super().execute(context)
            except AirflowException:
                self._raise_own(result)
                raise
            report: dict[str, Any] = json.loads(result.read_text())
        self._publish(report)
        if self.verb == VERIFY:
            self._tell(context, report["table"])
        return report

    def _tell(self, context: Context, table: str) -> None:
        """An event of the table's asset: what the unit's passes did, log by log."""
        ti, group = context["ti"], self.task_id.removesuffix(VERIFY)
        passes = {
            verb: ti.xcom_pull(task_ids=f"{group}{verb}", map_indexes=ti.map_index)
            for verb in ("phase_one", "phase_two")
        }
        done = {verb: report for verb, report in passes.items() if report and report["snapshot"]}
        if done:
            extra = {verb: compacted(report) for verb, report in done.items()}
            context["outlet_events"][COMPACTED].add(asset_of(setting("catalog"), table), extra=extra)

    def _publish(self, report: dict[str, Any]) -> None:
        """Copy the pages; that they cannot be copied is no reason to stop or to do the work again."""
        try:
            publish(pages_of(report))
        except Exception as error:  # whatever it is, the work is done
            self.log.warning("Data Docs were not copied: %s: %s", type(error).__name__, error)

    def _raise_own(self, result: Path) -> None:
        """Raise the job's own sentence if it left one."""
        if not result.is_file():
            return
        failure = json.loads(result.read_text())
        self._publish(failure)
        if failure["exit_code"] in AGAIN:
            raise AirflowException(failure["error"]) from None
        raise AirflowFailException(failure["error"]) from None


def job_file(verb: str) -> Path:
    """The entry point that spark-submit is given: from the setting `jobs`, else beside the package in a checkout.

    Raises:
        AirflowFailException: it is not there.
    """
    import hardpack

    folder = Path(setting("jobs") or Path(hardpack.__file__).parents[1])
    file = folder / f"{verb}.py"
    if not file.is_file():
        raise AirflowFailException(
            f"{file} is not there; copy the files of jobs/ to the workers and name their folder in [hardpack] jobs."
        )
    return file
