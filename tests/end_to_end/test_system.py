"""One whole run through a real scheduler: the first README command, twice, on its own port and home."""

import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from infra.services.process import free_ports
from tests.conftest import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("system")
    (folder / "jars").symlink_to(ROOT / ".hardpack" / "jars")
    return folder


def run(home, **env):
    done = subprocess.run(
        [sys.executable, "-m", "hardpack_airflow.demo", "run", "--port", str(free_ports(1)[0])],
        cwd=ROOT, env=os.environ | {"HARDPACK_HOME": str(home)} | env, capture_output=True, text=True, timeout=1000,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def snapshot(home):
    from pyiceberg.catalog import load_catalog

    lake = home / "lake"
    properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    return load_catalog("hardpack", **properties).load_table("demo.flights").current_snapshot()


def tries(home):
    """How many tries each task of each run took, by run, task and map index; those that were skipped took none."""
    with closing(sqlite3.connect(home / "airflow" / "airflow.db")) as database:
        found = database.execute("SELECT run_id, task_id, map_index, try_number FROM task_instance").fetchall()
    return {(run, task, index): number for run, task, index, number in found}


class Listener(threading.Thread):
    """A StatsD on loopback; `seen` has the last value of each metric."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket, self.seen = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), {}
        self.socket.bind(("127.0.0.1", 0))

    @property
    def env(self):
        port = str(self.socket.getsockname()[1])
        return {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_PORT": port}

    def run(self):
        while True:
            for line in self.socket.recv(65536).decode().splitlines():
                name, _, value = line.partition(":")
                self.seen[name] = value


def test_the_main_job_from_nothing_and_again(home):
    listener = Listener()
    listener.start()
    first = run(home, **listener.env)
    gauges = {n.removeprefix("airflow.hardpack."): v for n, v in listener.seen.items() if ".hardpack." in n}
    assert gauges["max-dirty-percent"] == "100.0|g"
    assert gauges["uncleanable-partitions-count"] == "0.0|g"
    assert 0 < float(gauges["cleaner-recopy-percent"].removesuffix("|g")) < 50
    assert {"max-compaction-delay-secs", "uncleanable-bytes", "max-clean-time-secs"} <= set(gauges)
    assert abs(float(gauges["last-look-time-secs"].removesuffix("|g")) - time.time()) < 1000
    assert "demo.flights: every guarantee holds" in first
    before = snapshot(home)
    assert before.summary.additional_properties["hardpack.plan"].startswith("one:")
    page = re.search(r"Data Docs: (.*\.html)", first).group(1)
    assert "demo.flights" in Path(page).read_text()
    for log in range(4):
        assert re.search(rf"^\s+{log}\s+8\d,\d{{3}} → ", first, re.M)

    assert len(tries(home)) == 6
    assert set(tries(home).values()) == {1}

    second = run(home)
    assert "nothing is due, so nothing was changed" in second
    assert "nothing dirty below the bound (active segment)" in second
    assert snapshot(home).snapshot_id == before.snapshot_id
    assert [number for (_, task, _), number in tries(home).items() if task == "sense"] == [1, 1]
    assert max(tries(home).values()) == 1


def test_nothing_of_it_is_left_running(home):
    import psutil

    for process in psutil.process_iter(["cmdline", "environ"]):
        assert (process.info["environ"] or {}).get("HARDPACK_HOME") != str(home), process.info["cmdline"]
