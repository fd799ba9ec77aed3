"""The first README command on PostgreSQL or REST, S3 and a Spark cluster, Airflow on PostgreSQL: the same rows."""

import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest

from infra.services.process import free_ports
from tests.conftest import CATALOG, ROOT
from tests.production.conftest import files_with

pytestmark = [pytest.mark.production, pytest.mark.timeout(1800)]
FLIGHTS = "demo.flights"


class CommandLines(threading.Thread):
    """Looks at the command lines of all processes again and again; `leaks` are those in which a secret stood."""

    def __init__(self, secrets):
        super().__init__(daemon=True)
        self.secrets, self.leaks, self.over = secrets, set(), threading.Event()

    def run(self):
        while not self.over.wait(0.3):
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                if any(secret in line for secret in self.secrets):
                    self.leaks.add(line[:200])


def run(env, master):
    command = [sys.executable, "-m", "hardpack_airflow.demo", "run", "--port", str(free_ports(1)[0]), "--given"]
    done = subprocess.run(
        [*command, "--master", master], cwd=ROOT, env=env, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def rows(properties):
    from pyiceberg.catalog import load_catalog

    table = load_catalog(CATALOG, **properties).load_table(FLIGHTS)
    return table.scan().to_arrow().sort_by([("partition", "ascending"), ("offset", "ascending")])


@pytest.fixture(scope="module")
def embedded(catalog, spark, home):
    """The rows that a pass leaves on a local disk under SQLite."""
    from hardpack import Hardpack
    from hardpack.demo.flights import load_flights

    hp = Hardpack(catalog, spark, home)
    load_flights(catalog, FLIGHTS)
    hp.clean_like_kafka(FLIGHTS)
    return catalog.load_table(FLIGHTS).scan().to_arrow().sort_by([("partition", "ascending"), ("offset", "ascending")])


@pytest.mark.parametrize("kind", ["postgresql", "rest"])
def test_the_main_job(kind, request, embedded, postgres, storage, cluster, production_home):
    if kind == "rest":
        properties = {**request.getfixturevalue("rest").properties, **storage.properties}
    else:
        uri = postgres.create(f"lake_{uuid.uuid4().hex}")
        properties = {"type": "sql", "uri": uri, "warehouse": "s3://lake/whole", **storage.properties}
    env = production_home(properties)
    env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = postgres.create(f"airflow_{uuid.uuid4().hex}")
    secrets = [postgres.password, storage.secret_key]
    watching = CommandLines(secrets)
    watching.start()
    started = time.time()
    first = run(env, cluster.url)
    assert f"{FLIGHTS}: every guarantee holds" in first
    assert rows(properties).equals(embedded)
    done = [a for a in cluster.master.state()["completedapps"] if a["starttime"] >= started * 1000]
    # that nothing is due after it, and that the table is as its gate read it, is seen by metadata
    assert [a["name"] for a in done] == ["hardpack-phase_one"]
    second = run(env, cluster.url)
    assert "nothing is due, so nothing was changed" in second
    assert rows(properties).equals(embedded)
    watching.over.set()
    watching.join()
    assert watching.leaks == set()
    assert files_with(Path(env["HARDPACK_HOME"]), secrets) == []
