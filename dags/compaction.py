"""Kafka's log compaction for Iceberg tables.

`sense` looks at metadata for logs over a threshold and skips the rest when there is none; `plan` orders them, the
filthiest first, in units of bounded size. Then per unit: `phase_one` drops superseded rows, `phase_two` the tombstones
past their delete horizon, `verify` checks the guarantees on the published table. `report` sums up.

A plan that was applied is not applied again, and a log is not cleaned at a time before its last pass, so any task may
be cleared. The horizons of tombstones count from the run's time, also in a backfill.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, Param, get_current_context, task, task_group
from airflow.sdk.exceptions import AirflowFailException
from hardpack_airflow.config import setting, timetable
from hardpack_airflow.look import look, run_time
from hardpack_airflow.operators import HardpackOperator
from hardpack_airflow.report import lines, write_report
from hardpack_airflow.sensor import DirtyLogsSensor, asked

log = logging.getLogger(__name__)
VERBS = ("phase_one", "phase_two", "verify")

with DAG(
    dag_id="hardpack",
    description="Log compaction: sense, plan, clean, expire, verify, report",
    doc_md=__doc__,
    schedule=timetable(),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["hardpack", "compaction"],
    default_args={"owner": "hardpack", "retries": 2, "retry_delay": timedelta(minutes=1), "pool": setting("pool")},
    params={
        "tables": Param(setting("tables"), type="string", title="Tables", description="a table or a glob such as db.*"),
        "partitions": Param([], type="array", items={"type": "string"}, description="only these logs; empty: all"),
        "force": Param(False, type="boolean", description="clean whatever is cleanable, whatever the dirty ratio"),
    },
) as dag:
    sense = DirtyLogsSensor(
        task_id="sense",
        tables="{{ params.tables }}",
        partitions="{{ params.partitions | tojson }}",
        force="{{ params.force | tojson }}",
        timeout=600,
    )

    @task
    def plan() -> list[dict[str, str]]:
        """The units of work, the filthiest first."""
        context = get_current_context()
        params = context["params"]
        seen = look(**asked(params["tables"], json.dumps(params["partitions"]), json.dumps(params["force"]),
                            run_time(context)))  # fmt: skip
        for line in seen["reasons"]:
            log.info("%s", line)
        context["ti"].xcom_push(key="errors", value=seen["errors"])
        if seen["errors"] and not seen["units"]:
            raise ValueError("; ".join(seen["errors"]))
        return seen["units"]

    @task_group
    def unit(of: dict[str, str]) -> None:
        """One unit: both phases and their check."""
        one, two, check = (
            HardpackOperator(task_id=verb, verb=verb, unit=of, map_index_template="{{ task.unit['label'] }}")
            for verb in VERBS
        )
        one >> two >> check

    @task(trigger_rule="all_done_min_one_success")
    def report() -> str:
        """What the run did, also when some unit failed; fails when one did or a table was refused."""
        context = get_current_context()
        ti = context["ti"]
        units = ti.xcom_pull(task_ids="plan")
        pulled = {v: ti.xcom_pull(task_ids=f"unit.{v}", map_indexes=list(range(len(units)))) for v in VERBS}
        results = {v: [r for r in found if r is not None] for v, found in pulled.items()}
        errors = list(ti.xcom_pull(task_ids="plan", key="errors") or ())
        if missing := len(units) - len(results[VERBS[-1]]):
            errors.append(f"{missing} of {len(units)} units did not reach the end, see their tasks")
        path = write_report(context["dag_run"].run_id, run_time(context), results, errors)
        for line in lines(results):
            log.info("%s", line)
        if errors:
            raise AirflowFailException("; ".join(errors))
        return str(path)

    units = plan()
    sense >> units
    unit.expand(of=units) >> report()
