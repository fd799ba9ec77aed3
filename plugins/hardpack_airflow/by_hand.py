"""The DAG with which somebody on call pauses, resumes and verifies a table from Airflow's pages, without a shell."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from hardpack_airflow.airflow_names import AirflowFailException
from hardpack_airflow.config import catalogs, setting, unit_timeout
from hardpack_airflow.failures import task_failure
from hardpack_airflow.operators import HardpackOperator
from hardpack_airflow.planning import see_that_the_form_counts

log = logging.getLogger(__name__)
DAG_ID = "hardpack_by_hand"
ACTIONS = ("verify", "pause", "resume")
MOST_TOLD = 100
"""Most logs in the XCom of the task `change`; the task's log has all."""
DOC = """What an alert asks for, by hand: trigger it, choose what to do, and name the table.

- **verify** checks the guarantees on the table as it is published, and leaves a page of Data Docs.
- **pause** keeps its logs from being cleaned until they are resumed, however often a schedule asks.
- **resume** undoes one pause, and lets logs be cleaned again that a refused pass had marked.

To clean at once, trigger the DAG of the table's policy, with *Force* to clean whatever the dirty ratio.
"""


def by_hand_dag(**dag_arguments: Any) -> DAG:
    """Returns the DAG; it has no schedule.

    Args:
        dag_arguments: arguments of the DAG, which replace those that are set here; `default_args` entry by entry.
    """
    all_catalogs = catalogs()
    arguments = {
        "dag_id": DAG_ID,
        "description": "Pause, resume and verify a table by hand",
        "doc_md": DOC,
        "schedule": None,
        "start_date": datetime(2026, 1, 1),
        "catchup": False,
        "is_paused_upon_creation": False,
        "tags": ["hardpack", "by hand"],
        "default_args": {
            "owner": "hardpack", "execution_timeout": timedelta(minutes=10), **dag_arguments.pop("default_args", {}),
        },
        "params": {
            "action": Param("verify", type="string", enum=list(ACTIONS), title="What to do"),
            "table": Param("", type="string", title="Table", minLength=1, description="namespace.table"),
            "catalog": Param(
                all_catalogs[0], type="string", enum=all_catalogs, title="Catalog", description="where the table is"
            ),
            "partitions": Param(
                [], type="array", items={"type": "string"}, title="Partitions",
                description="pause or resume only these logs; empty: all",
            ),
            "trust_late_rows": Param(
                False, type="boolean", title="Trust late rows",
                description="resume: clean rows that arrived below removed tombstones, where a deleted key may come "
                "back, or that seem to be of a topic made anew",
            ),
        },
    }  # fmt: skip
    with DAG(**arguments | dag_arguments) as dag:

        @task.branch
        def choose() -> str:
            """Returns the task to go on with."""
            context = get_current_context()
            see_that_the_form_counts(context, all_ours=True)
            action = context["params"]["action"]
            return "verify" if action == "verify" else "change"

        # a retry could pause twice, which counts twice; multiple outputs would be a row of Airflow's database per log
        @task(retries=0, multiple_outputs=False)
        def change() -> dict[str, str]:
            """Pauses or resumes, and returns how the first logs stand then."""
            context = get_current_context()
            if context["ti"].try_number > 1:
                raise AirflowFailException(
                    "Another try could pause or resume twice; see on the table's page how its logs stand, then start "
                    "a new run. Nothing was changed."
                )
            return dict(islice(_changed(context["params"]).items(), MOST_TOLD))

        verify = HardpackOperator(
            task_id="verify", verb="verify", table="{{ params.table }}", catalog="{{ params.catalog }}",
            pool=setting("pool"), execution_timeout=unit_timeout(),
        )  # fmt: skip
        choose() >> [change(), verify]
    return dag


def _changed(params: dict[str, Any]) -> dict[str, str]:
    from hardpack import Hardpack

    table, partitions = params["table"], params["partitions"] or None
    try:
        hp = Hardpack.connect(params["catalog"])
        if params["action"] == "pause":
            states = hp.pause(table, partitions)
        else:
            states = hp.resume(table, partitions, params["trust_late_rows"])
    except Exception as error:  # whatever it is, the task fails with its sentence
        raise task_failure(error) from error
    stands = {
        name: f"paused {state.paused} times" if state.paused else state.uncleanable or "cleaned when it is due"
        for name, state in states.items()
    }
    for name, said in stands.items():
        log.info("%s/%s: %s", table, name, said)
    return stands
