"""One DAG for each policy. Call `compaction_dag` in a DAG file of your own, or leave it to `dags/compaction.py`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib import import_module
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, get_current_context, task, task_group

from hardpack_airflow.airflow_names import AirflowFailException, deadline, schedule
from hardpack_airflow.config import default_policy
from hardpack_airflow.failures import within
from hardpack_airflow.handover import plans_handed_on
from hardpack_airflow.operators import VERIFY, HardpackOperator
from hardpack_airflow.planning import plan_units
from hardpack_airflow.readers import ask_readers_task, fail_if_not_asked_task
from hardpack_airflow.report import VERBS
from hardpack_airflow.report_task import ReportOperator
from hardpack_airflow.sensor import DirtyLogsSensor, asked

if TYPE_CHECKING:
    from hardpack.policy import Policy

log = logging.getLogger(__name__)
DESCRIPTION = "Log compaction: sense, plan, clean, expire, verify, report"
DOC = """Kafka's log compaction for Iceberg tables: policy **{name}**, tables {tables}.

{readers}`sense` looks at metadata for logs over a threshold and skips the rest when there is none; `plan` orders
them, the {first} first, in units of bounded size. Then per unit: `phase_one` drops superseded rows, `phase_two` the
tombstones past their delete horizon, `verify` checks the guarantees on the published table. `report` sums up.

A plan that was applied is not applied again, and a log is not cleaned at a time before its last pass, so any task may
be cleared. A backfill looks at the logs whose cleanable head has rows of its interval; its time is the interval's end.
New delete horizons count from the commit.

Trigger it with *dry run* to read in the log of `plan` what a run would do; nothing is changed then.
"""


def compaction_dags() -> Iterator[DAG]:
    """Yields a DAG for each policy of the policy file.

    Without a file there is one DAG, made from the section `[hardpack]` of Airflow's settings. The DAG of a
    faulty policy fails with the sentence that says what is wrong, and touches no table; the other DAGs work.

    Raises:
        BadInput: the policy file cannot be read; Airflow shows the sentence as an import error of the DAG file.
    """
    from hardpack.failures import as_hardpack_error
    from hardpack.policy.file import policies_in_force

    policies = policies_in_force()
    if not policies:
        yield made_or_refused("hardpack", lambda: compaction_dag(default_policy()))
        return
    for policy in policies.policies:
        try:
            yield compaction_dag(policy)
        except Exception as error:  # whatever it is, the other policies' DAGs are made
            problem = policy.problem or f"{as_hardpack_error(error)}"
            yield _refused_dag(policy.bare().refused(problem, owner=policy.owner, tags=policy.tags), policy.on_failure)


def _refused_dag(policy: Policy, on_failure: str) -> DAG:
    """Returns the failing DAG of a policy that cannot be followed; it calls `on_failure` if that can be imported."""
    try:
        return compaction_dag(policy.refused(policy.problem, on_failure=on_failure))
    except Exception:  # `on_failure` may be the very thing that cannot be imported
        return compaction_dag(policy)


def made_or_refused(dag_id: str, make: Callable[[], DAG]) -> DAG:
    """Returns a DAG, or in its place a failing one that says why it cannot be made; so it stops no other DAG.

    Args:
        dag_id: the DAG's id.
        make: makes the DAG from the section `[hardpack]`.
    """
    from hardpack.failures import as_hardpack_error

    try:
        return make()
    except Exception as error:  # whatever it is, the other DAGs of the file are made
        problem = f"[hardpack] of Airflow's configuration: {as_hardpack_error(error)}"
        with DAG(
            dag_id=dag_id, description="Refused: see its docs", doc_md=f"**Refused**: {problem}", schedule="@daily",
            start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1, tags=["hardpack", "refused"],
        ) as dag:  # fmt: skip
            _refusal(problem)
        return dag


def dag_id(policy: str) -> str:
    """Returns the id of a policy's DAG."""
    return "hardpack" if policy == "hardpack" else f"hardpack_{policy}"


def compaction_dag(policy: Policy, **dag_arguments: Any) -> DAG:
    """Returns the DAG of a policy: sense, plan, then per unit phase one, phase two and verify, then report.

    When the policy has a problem, `sense` is the only task, and fails with the problem.

    Args:
        policy: what is cleaned and when.
        dag_arguments: arguments of the DAG, which replace those that the policy makes. `default_args` and `params`
            replace entry by entry.

    Raises:
        BadInput: `on.failure` or `on.deadline` cannot be imported, or `on.deadline` is no coroutine.
    """
    arguments = {
        "dag_id": dag_id(policy.name),
        "description": "Refused: see its docs" if policy.problem else DESCRIPTION,
        "doc_md": (f"**Refused**: {policy.problem}\n\n" if policy.problem else "") + DOC.format(
            name=policy.name,
            tables=", ".join(f"`{t}`" for t in policy.tables),
            first="most overdue" if policy.order == "overdue" else "filthiest",
            readers="`readers` asks those that have to see the deletes how far they are. " if policy.readers else "",
        ),
        # a policy with a problem fails every hour, as its own schedule may be the problem
        "schedule": schedule("0 * * * *") if policy.problem else schedule(policy.schedule, policy.timezone),
        "start_date": datetime(2026, 1, 1),
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": _ms(policy.run_timeout_ms),
        "tags": ["hardpack", "compaction", *(["refused"] if policy.problem else []), *policy.tags],
        "default_args": {
            "owner": policy.owner, "retries": policy.retries, "retry_delay": _ms(policy.retry_delay_ms),
            "execution_timeout": _ms(policy.look_timeout_ms), **dag_arguments.pop("default_args", {}),
        },
        "params": _form(policy) | dag_arguments.pop("params", {}),
    }  # fmt: skip
    if policy.on_failure:
        arguments["on_failure_callback"] = named(policy.name, "on.failure", policy.on_failure)
    if policy.on_deadline:
        arguments["deadline"] = _deadline(policy)
    with DAG(**arguments | dag_arguments) as dag:
        if policy.problem:
            _refusal(policy.problem)
        else:
            _tasks(policy)
    return dag


def _ms(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _deadline(policy: Policy) -> Any:
    """Returns the DAG's `deadline`, which calls the policy's `on.deadline` when a run is late.

    Raises:
        BadInput: `on.deadline` cannot be imported, or is no coroutine.
    """
    from hardpack.errors import BadInput

    callback = named(policy.name, "on.deadline", policy.on_deadline)
    if not iscoroutinefunction(callback):
        raise BadInput(
            f"policy {policy.name}: on.deadline names {policy.on_deadline}, which is no coroutine, and Airflow's "
            "triggerer awaits it; write it as async def."
        )
    return deadline(_ms(policy.deadline_ms), callback)


def named(policy: str, field: str, place: str) -> Any:
    """Returns the function that a field of a policy names.

    Args:
        policy: the policy's name.
        field: the field's name.
        place: the field's value, `package.module:function`.

    Raises:
        BadInput: the function cannot be imported.
    """
    from hardpack.errors import BadInput

    module, _, name = place.partition(":")
    try:
        function = getattr(import_module(module), name)
        if not callable(function):
            raise TypeError(f"{name} is no function")
        return function
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        raise BadInput(
            f"policy {policy}: {field} names {place}, which cannot be imported ({error}); mend the name, or put it "
            "where Airflow's DAG processor can import it."
        ) from None


def _form(policy: Policy) -> dict[str, Param]:
    return {
        "tables": Param(
            ", ".join(policy.tables), type="string", title="Tables", minLength=1,
            description="tables or globs such as db.*, with commas between; of these the ones that are this policy's",
        ),
        "partitions": Param(
            [], type="array", items={"type": "string"}, title="Partitions", description="only these logs; empty: all"
        ),
        "force": Param(
            False, type="boolean", title="Force", description="clean whatever is cleanable, whatever the dirty ratio"
        ),
        "dry_run": Param(
            False, type="boolean", title="Dry run", description="only say what would be done, in the log of plan"
        ),
    }  # fmt: skip


def _refusal(problem: str) -> None:
    """Makes the only task of a refused DAG, which fails with the problem."""

    @task(retries=0)
    def sense() -> None:
        """Fails with what the policy file says wrong."""
        raise AirflowFailException(problem)

    sense()


def _tasks(policy: Policy) -> None:
    text = policy.model_dump_json(by_alias=True)
    sense = DirtyLogsSensor(
        task_id="sense",
        policy=text,
        tables="{{ params.tables }}",
        partitions="{{ params.partitions | tojson }}",
        force="{{ params.force | tojson }}",
        # a reader that cannot be asked holds up its tombstones alone, so the run goes on
        trigger_rule="all_done" if policy.readers else "all_success",
    )
    if policy.readers:
        asked_first = ask_readers_task(policy)
        asked_first >> [sense, fail_if_not_asked_task()]
    # tasks that read metadata alone leave the pool to those that clean
    spark: dict[str, Any] = {"pool": policy.pool, "execution_timeout": _ms(policy.unit_timeout_ms)}
    spark |= {"conn_id": policy.spark_conn_id} if policy.spark_conn_id else {}
    spark |= {"driver_memory": policy.driver_memory} if policy.driver_memory else {}
    spark |= {"catalog": policy.catalog} if policy.catalog else {}

    @task
    def plan() -> list[dict[str, Any]]:
        """Returns the units of work in the policy's order; none of a dry run, which only says what would be done."""
        return _planned(text)

    @task_group
    def unit(of: dict[str, Any]) -> None:
        """Cleans one unit: both phases and their check."""
        one, two, check = (
            HardpackOperator(
                task_id=verb,
                verb=verb,
                unit=of,
                map_index_template="{{ task.unit['label'] }}",
                # when some tables of a unit fail, the next verb goes on with the others
                trigger_rule="all_success" if verb == VERBS[0] else "all_done",
                fails_in_report=verb == VERIFY,
                **spark,
            )
            for verb in VERBS
        )
        one >> two >> check

    units = plan()
    sense >> units
    unit.expand(of=units) >> ReportOperator(
        task_id="report", policy=policy.name, tables=policy.tables, catalog=policy.catalog, trigger_rule="none_skipped"
    )


def _planned(policy: str) -> list[dict[str, Any]]:
    context = get_current_context()
    params, ti = context["params"], context["ti"]
    partitions, force = json.dumps(params["partitions"]), json.dumps(params["force"])
    # this process has read nothing yet, so it looks only at the tables that `sense` found due
    sensed = ti.xcom_pull(task_ids="sense") or {}
    due = sensed.get("tables")
    question = asked(policy, params["tables"], partitions, force, context)
    if due:
        question["only"] = due
    with within("look.timeout.ms"):
        seen = plan_units(**question)
    for line in seen["reasons"]:
        log.info("%s", line)
    for line in seen["errors"]:
        log.error("%s", line)
    ti.xcom_push(key="errors", value=seen["errors"])
    # `sense` alone has looked at the tables without work
    held = {(log["table"], log["partition"]): log for log in [*sensed.get("held", ()), *seen["held"]]}
    ti.xcom_push(key="held", value=list(held.values()))
    if seen["errors"] and not seen["units"]:
        raise ValueError("; ".join(seen["errors"]))
    units: list[dict[str, Any]] = seen["units"]
    handed = plans_handed_on(units, context["dag_run"].dag_id, context["dag_run"].run_id)
    if not params["dry_run"]:
        return handed
    few = all("plans" in unit for unit in handed)
    ti.xcom_push(key="dry_run", value=[json.loads(plan) for unit in units for plan in unit["plans"]] if few else handed)
    for unit in units:
        log.info("would clean %s", unit["label"])
    log.info("this is a dry run: nothing is changed")
    if seen["errors"]:
        raise ValueError("; ".join(seen["errors"]))
    return []
