"""What hangs or dies beside a run: who is on call sees a failed task with its reason, and the next run works."""

import signal
import sqlite3
import time
from contextlib import closing

import httpx
import psutil
import pytest

from tests.end_to_end.test_scheduler import drivers, wait_until
from tests.topics import append, name_of, new_topic, offsets, row

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(1500)]
LOOK, UNIT = 25, 60
"""Seconds after which the policy gives up a look, and a phase of a unit."""
LATE = 30
"""Seconds that Airflow may take beyond, to notice and to say so."""
LIMITS = f"retries: 0, look.timeout.ms: {LOOK}000, unit.timeout.ms: {UNIT}000"
POLICIES = f"""policies: [{{name: hardpack, tables: ["t.*"], schedule: "", {LIMITS}}}]"""


@pytest.fixture
def topic(site):
    site.airflow.call("PATCH", "dags/hardpack", json={"is_paused": False})
    table = new_topic(site.catalog, min_cleanable_dirty_ratio=0)
    for offset in range(3):
        append(table, {0: [row(offset, "a")]})
    return table


def task_of(site, run, name):
    path = f"dags/hardpack/dagRuns/{run}/taskInstances"
    tasks = site.airflow.call("GET", path)["task_instances"]
    return next((t for t in tasks if t["task_id"] == name and t["state"]), {"state": None})


def ends_after(site, run, name):
    """Seconds until a task ended, its state and its log."""
    started = time.monotonic()
    found = wait_until(lambda: (t := task_of(site, run, name))["state"] in ("success", "failed") and t, 300, name)
    return time.monotonic() - started, found["state"], site.airflow.log("hardpack", run, name, found["map_index"])


def assert_the_next_run_works(site, table):
    _, state, states = site.run(name_of(table))
    assert state == "success", states
    assert offsets(table) == [1, 2]


def test_a_driver_that_hangs(site, topic, capsys):
    run = site.airflow.trigger("hardpack", {"tables": name_of(topic)})
    (driver, *_) = wait_until(lambda: drivers(site.home), 200, "a driver")
    driver.send_signal(signal.SIGSTOP)
    seconds, state, log = ends_after(site, run, "unit.phase_one")
    assert state == "failed"
    assert seconds < UNIT + LATE
    assert "the Spark application took longer than unit.timeout.ms allows" in log
    wait_until(lambda: not drivers(site.home), 15, "the driver's end")
    states = dict(site.airflow.watch("hardpack", run))
    assert (states[""], states["report"]) == ("failed", "failed")
    with capsys.disabled():
        print(f"\na driver that hangs: phase_one failed after {seconds:.0f} s, unit.timeout.ms is {UNIT} s")
    assert_the_next_run_works(site, topic)


def test_a_catalog_that_hangs(site, topic, capsys):
    headers = {"Authorization": f"Bearer {site.airflow.token('admin')}"}
    slowest = 0.0
    with closing(sqlite3.connect(site.home / "lake" / "catalog.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        run = site.airflow.trigger("hardpack", {"tables": name_of(topic)})
        started = time.monotonic()
        while task_of(site, run, "sense")["state"] not in ("success", "failed"):
            asked = time.monotonic()
            assert httpx.get(f"{site.airflow.url}/api/v2/dags", headers=headers, timeout=30).status_code == 200
            slowest = max(slowest, time.monotonic() - asked)
            time.sleep(0.5)
            assert time.monotonic() - started < LOOK + 2 * LATE
        seconds, state, log = ends_after(site, run, "sense")
        seconds = time.monotonic() - started
        database.execute("ROLLBACK")
    assert state == "failed"
    assert "the look at the tables' metadata took longer than look.timeout.ms allows" in log
    with capsys.disabled():
        print(f"\na catalog that hangs: sense failed after {seconds:.0f} s, look.timeout.ms is {LOOK} s; "
              f"Airflow's server answered others in {slowest:.1f} s at most")  # fmt: skip
    assert_the_next_run_works(site, topic)


def test_no_run_needs_a_triggerer(site, topic):
    for process in psutil.process_iter(["cmdline", "environ"]):
        ours = (process.info["environ"] or {}).get("HARDPACK_HOME") == str(site.home)
        if ours and "triggerer" in " ".join(process.info["cmdline"] or ()):
            process.kill()
    health = f"{site.airflow.url}/api/v2/monitor/health"
    wait_until(lambda: httpx.get(health).json()["triggerer"]["status"] != "healthy", 120, "the server to notice")
    assert_the_next_run_works(site, topic)
