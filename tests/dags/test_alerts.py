"""Each alert fires in the situation that its runbook names, and no other: from tables over StatsD to Prometheus."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from random import Random

import pytest
import yaml
from hardpack import Hardpack
from hardpack.operations.gauges import cleaned, died, sensed
from hardpack_airflow.planning import plan_units

from tests.conftest import ROOT
from tests.topics import T0, append, name_of, new_topic, row

pytestmark = [pytest.mark.dags, pytest.mark.usefixtures("own_home")]

MONITORING = ROOT / "infra" / "monitoring"
MINUTES = 14 * 60
SEND = "import json, sys; from hardpack_airflow.metrics import send; send(*json.load(sys.stdin))"


@pytest.fixture
def look(catalog, monkeypatch):
    """Looks at a table for a policy of its name as the task `sense` does; returns the gauges."""
    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, **given: cls(catalog, **given)))

    def seen(table, now=T0):
        name = name_of(table)
        policy = {"name": name.replace(".", "-"), "tables": [name]}
        return plan_units("hardpack", policy, [name], None, False, now)["gauges"]

    return seen


@pytest.fixture
def heard(tmp_path):
    """Sends gauges as a task of Airflow does; returns what a StatsD server hears, by the series of Prometheus."""
    mappings = yaml.safe_load((MONITORING / "statsd_mapping.yml").read_text())["mappings"]

    def named(name):
        for one in mappings:
            if found := re.match(one["match"], name):
                policy = found.expand(one["labels"]["policy"].replace("$", "\\"))
                return f'{found.expand(one["name"].replace("$", chr(92))).replace("-", "_")}{{policy="{policy}"}}'
        raise AssertionError(f"{name} is mapped to nothing")

    def send(policy, gauges):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(1)
            on = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(server.getsockname()[1])}
            env = os.environ | {f"AIRFLOW__METRICS__{name}": value for name, value in on.items()}
            env["AIRFLOW_HOME"] = str(tmp_path / "airflow")
            subprocess.run(
                [sys.executable, "-c", SEND], env=env, input=json.dumps([policy, gauges]), text=True, check=True
            )
            # Airflow says other things too
            said = [line for line in iter(lambda: received(server), "") if ".hardpack." in line]
        assert len(said) == len(gauges)
        pairs = [re.fullmatch(r"(.+):(-?[0-9.e+]+)\|g", line).groups() for line in said]
        return {named(name): float(value) for name, value in pairs}

    return send


def received(server):
    """The next of what was sent, empty when nothing more comes."""
    try:
        return server.recv(4096).decode()
    except TimeoutError:
        return ""


def firing(series, folder, looks):
    """Names of the alerts that fire in the end.

    Args:
        series: the last values.
        looks: whether the task went on to look; Prometheus' tests begin at the epoch.
    """
    lasting = {name: f"{value}x{MINUTES}" for name, value in series.items()}
    lasting |= {name: f"0{'+60' * looks}x{MINUTES}" for name in series if "last_look" in name}
    if not any("last_look" in name for name in series):
        lasting['hardpack_last_look_time_secs{policy="another"}'] = f"0+60x{MINUTES}"
    asked = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{MINUTES}m"}
    for names in ([], ["HardpackUncleanable"], ["HardpackOverdue"], ["HardpackNotLooking"], ["HardpackRecopying"],
                  ["HardpackUnitsDie"], ["HardpackFailing"], ["HardpackPaused"]):  # fmt: skip
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
        case = {
            "rule_files": [str(MONITORING / "alerts.yml")],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": name, "values": values} for name, values in lasting.items()],
                    "promql_expr_test": [asked | {"exp_samples": samples}],
                }
            ],
        }
        (folder / "case.yml").write_text(yaml.safe_dump(case))
        if not subprocess.run(["promtool", "test", "rules", str(folder / "case.yml")], capture_output=True).returncode:
            return names
    return ["several"]


def test_a_gauge_arrives_where_airflow_sends_its_own(heard):
    assert heard("orders", died(2)) == {'hardpack_DeadThreadCount{policy="orders"}': 2.0}


def fire(heard, tmp_path, gauges, looks=True, policy="orders"):
    if not shutil.which("promtool"):
        pytest.skip("Prometheus is not here")
    return firing(heard(policy, gauges), tmp_path, looks)


def test_none_of_a_table_that_is_well(catalog, look, heard, tmp_path):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    assert fire(heard, tmp_path, look(table), policy="my-orders") == []


def test_uncleanable_of_a_log_that_waits_for_somebody(catalog, look, heard, tmp_path):
    table = new_topic(catalog, late_rows="refuse")
    append(table, {0: [row(offset, "a") for offset in range(5)]})
    append(table, {0: [row(5, "a")]})
    snapshot = table.refresh().current_snapshot()
    made = [snapshot.snapshot_id, snapshot.sequence_number]
    clean = {"checkpoint": 5, "start": 0, "end": 6, "horizons": [], "last_clean": {}, "snapshot": made}
    with table.transaction() as change:
        change.set_properties({"hardpack.state": json.dumps({"version": 1, "logs": {"0": clean}})})
    append(table, {0: [row(2, "z")]})
    assert fire(heard, tmp_path, look(table)) == ["HardpackUncleanable"]


def test_uncleanable_of_an_adopted_table_that_nobody_can_read(catalog, look, heard, tmp_path):
    table = new_topic(catalog, min_cleanable_dirty_ratio=9)
    append(table, {0: [row(0, "a")]})
    assert fire(heard, tmp_path, look(table)) == ["HardpackUncleanable"]


def test_overdue_of_a_log_that_nobody_cleans(catalog, look, heard, tmp_path):
    table = new_topic(catalog, max_compaction_lag_ms=1000)
    for offset in range(3):
        append(table, {0: [row(offset, "a")]})
    assert fire(heard, tmp_path, look(table, T0 + 3 * 3_600_000)) == ["HardpackOverdue"]


def test_not_looking_of_a_policy_whose_runs_have_stopped(catalog, look, heard, tmp_path):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    assert fire(heard, tmp_path, look(table), looks=False) == ["HardpackNotLooking"]


def test_recopying_of_passes_that_free_little(catalog, hp, heard, tmp_path):
    table, rng = new_topic(catalog, min_cleanable_dirty_ratio=0), Random(1)
    for start in range(0, 2000, 500):
        keys = {n: f"k{n}" if n > start else "again" for n in range(start, start + 500)}
        append(table, {0: [row(n, key, rng.randbytes(200).hex()) for n, key in keys.items()]})
    report = hp.clean(hp.plan(name_of(table)))
    assert report.logs[0].superseded > 0
    assert fire(heard, tmp_path, cleaned([report])) == ["HardpackRecopying"]


def test_failing_of_a_policy_whose_runs_end_badly(heard, tmp_path):
    hour = 3_600_000
    assert fire(heard, tmp_path, sensed([], T0, since=2 * hour)) == []
    assert fire(heard, tmp_path, sensed([], T0, since=4 * hour)) == ["HardpackFailing"]


def test_paused_of_a_log_that_somebody_forgot(catalog, look, heard, tmp_path):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    Hardpack(catalog).pause(name_of(table), [0])
    assert fire(heard, tmp_path, look(table)) == ["HardpackPaused"]


def test_units_die_of_runs_whose_drivers_are_killed(heard, tmp_path):
    assert fire(heard, tmp_path, died(0)) == []
    assert fire(heard, tmp_path, died(2)) == ["HardpackUnitsDie"]
