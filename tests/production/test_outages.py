"""Real services that die in the middle of a pass: catalog, storage, executors; the same plan ends well."""

import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest
from hardpack import Hardpack, faults
from hardpack.errors import CommitUnknown, Unavailable
from hardpack.spark.session import open_session
from pyiceberg.catalog import load_catalog

from tests.conftest import CATALOG
from tests.production.conftest import failure_of
from tests.proxy import LossyProxy
from tests.topics import T0, name_of, offsets, superseded_once

pytestmark = [pytest.mark.production, pytest.mark.timeout(900)]
LEFT = [1, 2, 3, 4]
IMPATIENT = {
    "s3.retry.num-retries": "1", "s3.retry.max-wait-ms": "100", "s3.connect-timeout": "2",
    "rest.client.socket-timeout-ms": "10000", "rest.client.max-retries": "1",
}  # fmt: skip
"""Properties of both engines: how long they wait for a storage that is away, or for a catalog that waits for it."""


@pytest.fixture
def far(rest, storage, production_home, monkeypatch, home):
    """hardpack on REST, behind a proxy, and S3."""
    with LossyProxy(rest.port) as proxy:
        behind = {"uri": f"http://127.0.0.1:{proxy.port}/"}
        properties = {**rest.properties, **storage.properties, **behind, **IMPATIENT}
        monkeypatch.setenv("HARDPACK_HOME", production_home(properties)["HARDPACK_HOME"])
        catalog = load_catalog(CATALOG, **properties)
        spark = open_session(catalog)
        yield Hardpack(catalog, spark, home), proxy
        spark.stop()


@pytest.fixture
def when(monkeypatch):
    """Run something once, when a pass reaches a point in the driver."""

    def plant(point, action):
        real, done = faults.reach, []

        def reach(reached):
            if reached == point and not done:
                done.append(True)
                action()
            real(reached)

        monkeypatch.setattr(faults, "reach", reach)

    return plant


def test_an_answer_that_is_lost(far, meanwhile):
    hp, proxy = far
    table = superseded_once(hp.catalog)
    plan = hp.plan(name_of(table), now=T0)
    request = f"POST /v1/namespaces/t/tables/{table.name()[-1]}".encode()
    meanwhile(lambda: setattr(proxy, "lose_answer_to", request))
    assert_found_out(hp, table, plan, proxy)


def assert_found_out(hp, table, plan, proxy):
    """A pass goes through, though the answer to its commit is lost."""
    report = hp.clean(plan)
    assert proxy.lost == 1
    assert report.snapshot == table.refresh().current_snapshot().snapshot_id, "found out, not guessed"
    assert hp.clean(plan).repeated
    assert offsets(table) == LEFT
    assert len(table.snapshots()) == 4


def test_an_answer_of_postgresql_that_is_lost(postgres, tmp_path, production_home, monkeypatch, home, meanwhile):
    (tmp_path / "warehouse").mkdir()
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    with LossyProxy(postgres.port) as proxy:
        behind = uri.replace(f":{postgres.port}/", f":{proxy.port}/")
        properties = {"type": "sql", "uri": behind, "warehouse": f"file://{tmp_path}/warehouse"}
        monkeypatch.setenv("HARDPACK_HOME", production_home(properties)["HARDPACK_HOME"])
        catalog = load_catalog(CATALOG, **properties)
        spark = open_session(catalog)
        hp, table = Hardpack(catalog, spark, home), superseded_once(catalog)
        plan = hp.plan(name_of(table), now=T0)
        meanwhile(lambda: setattr(proxy, "lose_answer_to", b"UPDATE iceberg_tables"))
        assert_found_out(hp, table, plan, proxy)
        spark.stop()


def test_a_catalog_that_dies_before_the_swap(far, rest, meanwhile):
    hp, _ = far
    table = superseded_once(hp.catalog)
    plan = hp.plan(name_of(table), now=T0)
    meanwhile(rest.kill)
    with pytest.raises(CommitUnknown, match="run the same plan again"):
        hp.clean(plan)
    rest.start()
    assert offsets(table) == [0, *LEFT]
    assert not hp.clean(plan).repeated
    assert offsets(table) == LEFT


@pytest.mark.parametrize("point", ["begun", "dead rows found", "rewritten", "gate passed"])
def test_a_storage_that_dies_in_the_middle(far, storage, when, point):
    hp, _ = far
    table = superseded_once(hp.catalog)
    plan = hp.plan(name_of(table), now=T0)
    when(point, storage.kill)
    try:
        failure = failure_of(hp, plan)
    finally:
        storage.start()
    assert isinstance(failure, Unavailable | CommitUnknown), failure
    assert offsets(table) == [0, *LEFT]
    assert not hp.clean(plan).repeated
    assert offsets(table) == LEFT


@pytest.fixture
def spread(postgres, cluster, tmp_path, production_home, monkeypatch, home, passes_by_turns, in_workers):
    """hardpack on a cluster of two workers, which do what else would be done beside the driver."""
    (tmp_path / "warehouse").mkdir()
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setenv("HARDPACK_HOME", production_home(properties)["HARDPACK_HOME"])
    monkeypatch.setenv("HARDPACK_SPARK_MASTER", cluster.url)
    catalog = load_catalog(CATALOG, **properties)
    spark = open_session(catalog)
    yield Hardpack(catalog, spark, home)
    spark.stop()


def executors():
    """The processes that Spark's workers started."""
    return [p for p in psutil.process_iter(["cmdline"]) if any("CoarseGrained" in a for a in p.info["cmdline"] or [])]


def tasks_of(pids):
    """The Python processes of these executors."""
    return [child for process in pids for child in process.children(recursive=True)]


def at_first_file(folder, act):
    """Do something as soon as a task begins to write a file below a folder."""
    known = set(folder.rglob("hardpack-*.parquet"))

    def watch():
        end = time.monotonic() + 120
        while time.monotonic() < end and set(folder.rglob("hardpack-*.parquet")) <= known:
            time.sleep(0.005)
        act()

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.parametrize("point", ["begun", "dead rows found", "file written"])
@pytest.mark.parametrize("whom", ["executor", "task"])
def test_an_executor_or_a_task_that_is_killed(spread, when, whom, point, tmp_path):
    table = superseded_once(spread.catalog)
    killed = []

    def kill():
        victims = executors()[:1] if whom == "executor" else tasks_of(executors())
        killed.extend(victims)
        for process in victims:
            process.kill()

    spread.clean_like_kafka(name_of(superseded_once(spread.catalog)), now=T0)
    if point == "file written":
        at_first_file(tmp_path / "warehouse", kill)
    else:
        when(point, kill)
    report = spread.clean(spread.plan(name_of(table), now=T0))
    assert killed, "nothing to kill was there"
    assert report.snapshot is not None
    assert offsets(table) == LEFT


def test_a_cluster_that_is_down_is_an_outage(catalog, lake, tmp_path):
    table = superseded_once(catalog)
    settings = {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": value for name, value in lake.items()}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("hardpack")), "clean", name_of(table), "--force"],
        env=os.environ | settings | {"HARDPACK_SPARK_MASTER": "spark://127.0.0.1:1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 5
    assert "see that its master spark://127.0.0.1:1 is up" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
