"""Appender, cleaner, bin-pack, expiry and row deletes on one table at the same time (invariants 1, 2, 4, 7, 9)."""

import os
import random
import time
import uuid
from collections import Counter

import pytest
from hardpack import Conflict, Hardpack
from hardpack.demo.topic import create_topic
from hardpack.spark.session import open_session
from hardpack.table.history import trusted_states
from pyiceberg.catalog import load_catalog

from tests.conftest import CATALOG
from tests.production.neighbours import PARTITIONS, World, account, appender, bin_packer, deleter, expirer

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(3600)]
SECONDS = int(os.environ.get("HARDPACK_NEIGHBOURS_SECONDS", "1200"))


def world_of(catalog_properties, spark):
    def connect():
        return load_catalog(CATALOG, **catalog_properties)

    name = f"t.neighbours_{uuid.uuid4().hex[:8]}"
    rules = {"hardpack.min.cleanable.dirty.ratio": "0.1", "hardpack.delete.retention.ms": "20000"}
    # so many snapshots a minute make the appender's own retries scarce
    create_topic(connect(), name, rules | {"commit.retry.num-retries": "20"})
    return World(name, connect, spark, random.Random(1))


@pytest.fixture
def shared_lake(postgres, tmp_path):
    """A catalog for several writers at once: SQLite lets one write at a time."""
    (tmp_path / "warehouse").mkdir()
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    return {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def session(shared_lake, production_home, monkeypatch):
    """Spark on that catalog."""
    monkeypatch.setenv("HARDPACK_HOME", production_home(shared_lake)["HARDPACK_HOME"])
    found = open_session(load_catalog(CATALOG, **shared_lake))
    yield found
    found.stop()


def test_everybody_at_once(shared_lake, session, home, capsys, caplog):
    caplog.set_level("INFO", "hardpack")
    world = world_of(shared_lake, session)
    hp = Hardpack(world.connect(), session, home)
    told = Counter()
    world.start((appender, 0.7), (bin_packer, 15), (expirer, 20), (deleter, 5))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        told["passes"] += 1
        try:
            plan = hp.plan(world.table)
            if plan.doing("clean", "expire"):
                told["published"] += hp.clean_or_replan(plan).snapshot is not None
                told["phase two"] += hp.expire_after(plan).snapshot is not None
        except Conflict:
            told["yielded to the end"] += 1
        time.sleep(1)
    world.stop()
    hp.clean_or_replan(hp.plan(world.table, force=True))
    table = world.connect().load_table(world.table)
    found = table.scan().to_arrow().select(["partition", "offset", "key", "value"]).to_pydict()
    rows = list(zip(*found.values(), strict=True))
    states = trusted_states(table)
    checkpoints = {p: states[str(p)].checkpoint for p in PARTITIONS}
    told["planned anew"] = sum(r.name == "hardpack.api" for r in caplog.records)
    told["commits tried again"] = sum(r.name == "hardpack.spark.commit" for r in caplog.records)
    with capsys.disabled():
        print(f"\n{SECONDS} s; neighbours: {dict(world.told)}; cleaner: {dict(told)}")
        print(f"{len(world.appended)} rows appended, {len(world.deleted)} asked to go, {len(rows)} left")
    assert world.failures == []
    assert account(world, rows, checkpoints) == []
    assert told["published"] > 0
    assert world.told["appender"] >= SECONDS, "fewer than one commit a second"
