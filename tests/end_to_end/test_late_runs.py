"""A run that does not end in time: Airflow's triggerer awaits what the policy names, while the run goes on."""

import json

import pytest

from tests.end_to_end.test_scheduler import wait_until
from tests.topics import append, name_of, new_topic, offsets, row

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(900)]
POLICIES = """policies:
- {name: hardpack, tables: ["t.*"], schedule: "", deadline.ms: 2000, on.deadline: "oncall:late"}
"""
PLUGINS = {
    "oncall": """import json, os
from pathlib import Path

async def late(context):
    run, home = context["dag_run"], Path(os.environ["HARDPACK_HOME"])
    (home / "called.json").write_text(json.dumps([run["dag_id"], run["dag_run_id"], run["state"]]))
"""
}


def test_a_late_run_is_told_of_and_ends_well(site):
    table = new_topic(site.catalog, min_cleanable_dirty_ratio=0)
    for offset in range(3):
        append(table, {0: [row(offset, "a")]})
    site.airflow.call("PATCH", "dags/hardpack", json={"is_paused": False})
    run = site.airflow.trigger("hardpack", {"tables": name_of(table)})
    told = wait_until(lambda: (site.home / "called.json").exists() and site.home / "called.json", 120, "a call")
    dag, late, state = json.loads(told.read_text())
    assert (dag, late) == ("hardpack", run)
    assert state == "running"
    states = dict(site.airflow.watch("hardpack", run))
    assert states.pop("") == "success", states
    assert offsets(table) == [1, 2]
