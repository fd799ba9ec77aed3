"""The DAGs as they run without a scheduler: tables that fail beside others, the form of what alerts ask for."""

import json
import time
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from tests.dags.own_process import python
from tests.topics import append, name_of, new_topic, row, rows_of

pytestmark = pytest.mark.dags

RUN = """
import json, sys
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.dagbag import DagBag
dag = DagBag("dags").dags[sys.argv[2]]
run = dag.test(run_conf=json.loads(sys.argv[1]))
states = {f"{t.task_id}[{t.map_index}]" if t.map_index >= 0 else t.task_id: t.state for t in run.get_task_instances()}
print("##" + json.dumps([run.state, states, run.run_id]))
"""


def run_dag(env, dag="hardpack", **conf):
    state, states, run_id = json.loads(python(RUN, env, json.dumps(conf), dag).split("##")[-1])
    return state, states, run_id


def test_one_table_that_cannot_be_cleaned_does_not_stop_the_others_and_what_is_clean_is_left_alone(airflow_env):
    folder, properties, env = airflow_env
    catalog = load_catalog("hardpack", **properties)
    tables = [new_topic(catalog) for _ in range(3)]
    for table in tables:
        append(table, {0: [row(0, "a"), row(1, "a")]})
        append(table, {0: [row(2, "b")]})
    lost = min((t.file for t in tables[1].scan().plan_files()), key=lambda file: file.lower_bounds[2]).file_path
    Path(lost.removeprefix("file://")).unlink()

    snapshot = tables[0].refresh().current_snapshot().snapshot_id
    _, states, _ = run_dag(env, tables=name_of(tables[0]), dry_run=True)
    assert (states["plan"], states["unit.phase_one"]) == ("success", "skipped")
    assert tables[0].refresh().current_snapshot().snapshot_id == snapshot

    state, states, run_id = run_dag(env, tables=", ".join(map(name_of, tables)))
    assert (state, states) == (
        "failed",
        {
            "sense": "success", "plan": "success", "unit.phase_one[0]": "failed", "unit.phase_two[0]": "success",
            "unit.verify[0]": "success", "report": "failed",
        },
    )  # fmt: skip
    assert [[r.offset for r in rows_of(table)] for table in (tables[0], tables[2])] == [[1, 2], [1, 2]]
    report = next(r for f in (folder / "reports").iterdir() if (r := json.loads(f.read_text()))["run"] == run_id)
    good = sorted([name_of(tables[0]), name_of(tables[2])])
    assert {verb: sorted(one["table"] for one in report[verb]) for verb in ("phase_one", "phase_two", "verify")} == {
        "phase_one": good, "phase_two": good, "verify": good,
    }  # fmt: skip
    (said,) = report["errors"]
    assert "is missing" in said
    assert lost.rpartition("/")[2] in said
    assert [[log["superseded"] for log in one["logs"]] for one in report["phase_one"]] == [[1], [1]]
    assert all(one["success"] for one in report["verify"])

    snapshot = tables[0].refresh().current_snapshot().snapshot_id
    time.sleep(1.1)
    state, states, _ = run_dag(env, tables=name_of(tables[0]))
    assert (state, set(states.values())) == ("success", {"skipped"})
    assert tables[0].refresh().current_snapshot().snapshot_id == snapshot

    before = len(tables[0].snapshots())
    state, states, _ = run_dag(env, "hardpack_maintenance", tables=name_of(tables[0]))
    assert (state, states) == ("success", {"tables": "success", "maintain[0]": "success"})
    assert len(tables[0].refresh().snapshots()) == before


def test_a_run_of_no_table_fails(airflow_env):
    state, states, _ = run_dag(airflow_env[2], tables="no.such")
    assert (state, states["sense"]) == ("failed", "failed")
    assert {name: state for name, state in states.items() if name.startswith("unit.")} == {
        f"unit.{verb}": "upstream_failed" for verb in ("phase_one", "phase_two", "verify")
    }


def test_what_an_alert_asks_for_is_done_from_the_form(airflow_env):
    _, properties, env = airflow_env
    table = new_topic(load_catalog("hardpack", **properties))
    append(table, {0: [row(0, "a")], 1: [row(0, "b")]})

    def act(**conf):
        state, states, _ = run_dag(env, "hardpack_by_hand", table=name_of(table), **conf)
        logs = json.loads(table.refresh().properties.get("hardpack.state", "{}")).get("logs", {})
        return state, states["change"], states["verify"], {log: of.get("paused", 0) for log, of in logs.items()}

    assert act(action="pause") == ("success", "success", "skipped", {"0": 1, "1": 1})
    assert act(action="verify")[:3] == ("success", "skipped", "success")


OWN_DAG = """
from datetime import datetime
from airflow.sdk import DAG
from hardpack_airflow.operators import HardpackOperator

with DAG("own", start_date=datetime(2026, 1, 1), schedule=None):
    HardpackOperator(task_id="clean", table="{table}", verb="phase_one")
"""


def test_the_operator_serves_in_anybodys_dag(airflow_env, tmp_path):
    _, properties, env = airflow_env
    table = new_topic(load_catalog("hardpack", **properties))
    append(table, {0: [row(0, "a"), row(1, "a")]})
    append(table, {0: [row(2, "b")]})
    (tmp_path / "own.py").write_text(OWN_DAG.format(table=name_of(table)))
    code = RUN.replace('DagBag("dags")', f'DagBag("{tmp_path}")')
    env = env | {"AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path)}
    state, states, _ = json.loads(python(code, env, "{}", "own").split("##")[-1])
    assert (state, states) == ("success", {"clean": "success"})
    assert [r.offset for r in rows_of(table)] == [1, 2]
