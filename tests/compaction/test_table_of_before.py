"""A table that the version before left is read and cleaned on: state, summaries, key filters, and its policy file.

`tests/table_of_before` holds it as that version wrote it, and how it was made.
"""

import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from hardpack.compaction.report import PassReport
from hardpack.demo.topic import COLUMNS
from hardpack.policy.file import load_policies
from hardpack.table.history import commits, trusted_states

from infra.archives import unpack
from tests.table_of_before.make import NAME, PLACE, STEPS, T0, appended, history

FOLDER = Path(__file__).parents[1] / "table_of_before"
LEFT = json.loads((FOLDER / "left.json").read_text())


@pytest.fixture
def before(catalog):
    """The table in the catalog of the tests."""
    shutil.rmtree(PLACE, ignore_errors=True)
    with tarfile.open(FOLDER / "table.tar.gz") as tar:
        unpack(tar, PLACE)
    catalog.create_namespace_if_not_exists("t")
    yield catalog.register_table(NAME, LEFT["metadata"])
    catalog.drop_table(NAME)
    shutil.rmtree(PLACE)


def filters():
    """Name and time of each key filter."""
    return {p.name: p.stat().st_mtime_ns for p in PLACE.rglob("hardpack-keys/*.parquet")}


def rows_of(table):
    return {(r["partition"], r["offset"]) for r in table.scan().to_arrow().to_pylist()}


def latest(steps, log, end):
    """The last offset of each key below an offset, and whether it is a tombstone."""
    rows = sorted(row for step in steps for row in step[log] if row[0] < end)
    return {key: (offset, value is None) for offset, key, value in rows if key is not None}


def test_its_state_and_its_passes_read_as_they_were_left(before, hp):
    now = {str(s.partition): s.model_dump(mode="json") for s in hp.status(NAME, now=T0 + 10_000)}
    for status in LEFT["status"]:
        assert {name: now[str(status["partition"])][name] for name in status} == status
    kept = [json.loads(PassReport.from_summary(c.report, c.snapshot).summary_json()) for c in commits(before)]
    for before_now, left in zip(kept[::-1], LEFT["passes"], strict=True):
        # what newer versions tell beside is empty
        logs = [{name: log[name] for name in was} for log, was in zip(before_now["logs"], left["logs"], strict=True)]
        assert {name: before_now[name] for name in left} | {"logs": logs} == left
        assert not any(before_now[name] for name in before_now.keys() - left.keys())
    assert trusted_states(before)["1"].paused == 1
    assert rows_of(before) == set(map(tuple, LEFT["rows"]))


@pytest.mark.spark
def test_it_is_cleaned_on(before, hp):
    assert hp.verify(NAME, now=T0 + 10_000).success
    made = filters()
    assert made
    hp.resume(NAME, [1])
    steps, now = history(), T0 + 20_000
    # of log 2 only its own newest keys come again, so that clean files hold none of the head's
    rows = {log: [(steps[-1][log][-1][0] + 1 + n, f"k{40 * (STEPS - 1)}".encode(), "again") for n in range(3)]
            for log in range(3)}  # fmt: skip
    for part in appended(rows, now):
        before.refresh().append(pa.table(part, schema=COLUMNS))
    report = hp.clean(hp.plan(NAME, now=now))
    assert sorted(entry.partition for entry in report.logs) == [0, 1, 2]
    left = rows_of(before.refresh())
    for entry in report.logs:
        last = latest([*steps, rows], entry.partition, entry.checkpoint_after)
        mine = {o for log, o in left if log == entry.partition and o < entry.checkpoint_after}
        assert {o for o, tombstone in last.values() if not tombstone} <= mine <= {o for o, _ in last.values()}
    # a filter that could not be read would have been made again
    unread = made.items() & filters().items()
    assert len(unread) == len(made)
    hp.expire_tombstones(NAME, now=now + 2000)
    tombstones = {(log, o) for log in rows for o, dead in latest([*steps, rows], log, 10**9).values() if dead}
    assert rows_of(before.refresh()) & tombstones == set()
    assert hp.verify(NAME, now=now + 3000).success


def test_its_policies_are_read():
    policies = load_policies(FOLDER / "policies.yaml")
    orders, rest = policies.policies
    assert policies.of("shop.order_lines") is orders
    assert (orders.order, orders.pool, orders.unit_bytes, rest.tables) == ("overdue", "orders", 53687091200, ("*.*",))
    assert policies.settings("shop.orders")["max.compaction.lag.ms"] == "3600000"
