"""The DAGs that go over all adopted tables, several tables a task: maintenance, and checks of the guarantees."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from glob import has_magic
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException, schedule
from hardpack_airflow.config import catalogs, globs, setting, unit_timeout
from hardpack_airflow.failures import task_failure
from hardpack_airflow.handover import plans_handed_on
from hardpack_airflow.operators import MAINTAIN, VERIFY, HardpackOperator, table_of
from hardpack_airflow.planning import is_by_hand, run_time, see_that_the_form_counts, shortened

log = logging.getLogger(__name__)
MOST_TASKS = 500
"""Most Spark applications of a run; by default Airflow maps 1,024 tasks at most."""
MAINTENANCE = """Frees the storage that compaction made superfluous, some adopted tables a task: retention of tables
whose policy names `delete`, snapshots older than the table's `history.expire.max-snapshot-age-ms`, orphan files older
than three days (`hardpack.orphan.age.ms`), key filters of files that are gone, and manifests where there are too many.

Snapshots by which Kafka Connect, Flink or Spark's streaming find their way back stay. Of a table with
`hardpack.maintenance=off` only retention is done. Trigger it with *dry run* to see what would go.
"""
QUALITY = """Checks the guarantees on the adopted tables as they are published, some tables a task, and changes nothing.
Each check leaves a page of Data Docs. A task fails when a guarantee of one of its tables is broken.

Runs of compaction check what they publish themselves; this finds what others have done to the tables since.
"""


def maintenance_dag(**dag_arguments: Any) -> DAG:
    """Returns the DAG that maintains all adopted tables.

    Args:
        dag_arguments: arguments of the DAG, which replace those of the settings; `default_args` entry by entry.
    """
    description = "Old snapshots, orphan files, manifests: what compaction freed leaves the storage"
    dry_run = Param(False, type="boolean", title="Dry run", description="only say what could go")
    arguments = {"description": description, "doc_md": MAINTENANCE} | dag_arguments
    return _over_tables(MAINTAIN, "maintenance", arguments, {"dry_run": dry_run})


def quality_dag(**dag_arguments: Any) -> DAG:
    """Returns the DAG that verifies all adopted tables.

    Args:
        dag_arguments: arguments of the DAG, which replace those of the settings; `default_args` entry by entry.
    """
    arguments = {"description": "The guarantees, checked on what is published", "doc_md": QUALITY} | dag_arguments
    return _over_tables(VERIFY, "quality", arguments, {})


def _over_tables(verb: str, name: str, arguments: dict[str, Any], form: dict[str, Param]) -> DAG:
    tables = Param(
        setting("tables"), type="string", title="Tables", minLength=1,
        description="tables or globs such as db.*, with commas between",
    )  # fmt: skip
    usual = {
        "dag_id": f"hardpack_{name}",
        "schedule": schedule(_cron(f"{name}_schedule")),
        "start_date": datetime(2026, 1, 1),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["hardpack", name],
        "dagrun_timeout": timedelta(days=7),
        "params": {"tables": tables} | form,
    }
    defaults = {
        "owner": "hardpack", "retries": 2, "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(minutes=10), **arguments.pop("default_args", {}),
    }  # fmt: skip
    with DAG(**usual | arguments | {"default_args": defaults}) as dag:

        @task(task_id="tables")
        def found() -> list[dict[str, Any]]:
            """Returns the adopted tables, so many a task as one Spark application takes."""
            context = get_current_context()
            see_that_the_form_counts(context, all_ours=True)
            params, run = context["params"], context["dag_run"]
            asked = globs(params["tables"]), run_time(context), params.get("dry_run", False)
            all_catalogs, ti = catalogs(), context["ti"]
            last = len(all_catalogs) > 1 and ti.try_number > ti.max_tries
            most = MOST_TASKS // len(all_catalogs)
            requests = [
                unit
                for one in all_catalogs
                for unit in requests_or_error(one, *asked, most, last, len(all_catalogs) > 1)
            ]
            named = {table_of(plan) for unit in requests for plan in unit["plans"]}
            if len(all_catalogs) > 1 and not any("error" in unit for unit in requests):
                # a table that no catalog has gets a task all the same, which says so
                lost = [name for name in asked[0] if not has_magic(name) and name not in named]
                requests += requests_or_error(all_catalogs[0], lost, *asked[1:], most, last) if lost else []
            if not requests and is_by_hand(run):
                raise AirflowFailException(f"{params['tables']}: no adopted table matches; mend the name or glob.")
            return plans_handed_on(requests, run.dag_id, run.run_id)

        HardpackOperator.partial(
            task_id=verb, verb=verb, map_index_template="{{ task.unit['label'] }}",
            pool=setting("maintenance_pool") or setting("pool"), execution_timeout=unit_timeout(),
        ).expand(unit=found())  # fmt: skip
    return dag


def _cron(name: str) -> str:
    """Returns a setting that is a cron expression.

    Raises:
        BadInput: it is no cron expression.
    """
    from hardpack.errors import BadInput
    from hardpack.policy.cron import wrong_of_cron

    # of Airflow's names for schedules, croniter does not know this one
    cron = setting(name).replace("@quarterly", "0 0 1 */3 *")
    if cron and (wrong := wrong_of_cron(cron)):
        raise BadInput(f"{name}: {wrong}.")
    return cron


def requests_or_error(
    catalog: str, patterns: list[str], now: int, dry_run: bool, most: int, last: bool, one_of_several: bool = False
) -> list[dict[str, Any]]:
    """Returns `table_requests`, or for a catalog that cannot be read one unit whose task fails and says why.

    So such a catalog holds up no other. Before the task's last try this raises instead, as another try may help. With
    one catalog there is no other to hold up, and no try counts as the last.

    Raises:
        AirflowException: the catalog cannot be read, and this is not the last try.
    """
    try:
        return table_requests(catalog, patterns, now, dry_run, most, one_of_several)
    except Exception as error:  # whatever it is, the other catalogs can be read
        failure = task_failure(error)
        if not last:
            # a hopeless error is tried again too, which takes a minute; in the end its own task reports it
            raise AirflowException(f"{failure}") from error
        return [{"label": f"catalog {catalog}", "plans": [], "error": f"{failure}", "catalog": catalog}]


def table_requests(
    catalog: str,
    patterns: list[str],
    now: int,
    dry_run: bool,
    most: int = MOST_TASKS,
    one_of_several: bool = False,
) -> list[dict[str, Any]]:
    """Returns units for the operator, each of several adopted tables of a catalog that the names or globs match.

    Other tables are left out, so that they cannot fail a run.

    Args:
        catalog: its name in pyiceberg's configuration.
        patterns: tables or globs.
        now: ms since the epoch.
        dry_run: whether to say only what could go.
        most: most units to return.
        one_of_several: whether a table that is named plainly may be in another catalog.
    """
    from hardpack import Hardpack
    from hardpack.cli.spark_submit import TableRequest
    from hardpack.operations.known_tables import may_be_there
    from hardpack.operations.units import SHARED_PLANS

    hp = Hardpack.connect(catalog)
    asked = [one for one in patterns if not one_of_several or has_magic(one) or may_be_there(hp.catalog, one)]
    names = hp.tables(*asked)
    requests = [TableRequest(table=name, now=now, dry_run=dry_run).model_dump_json() for name in names]
    # tables share an application, as Spark takes longer to start than to maintain one; more tables share larger units
    share = max(SHARED_PLANS, -(-len(names) // most))
    starts = range(0, len(names), share)
    return [
        {
            "label": shortened("; ".join(names[at : at + share])),
            "plans": requests[at : at + share],
            "catalog": catalog,
        }
        for at in starts
    ]
