"""One set of records in a compacted topic of a real broker and in a table, both cleaned, compared record by record."""

from __future__ import annotations

import time

import pytest
from hardpack.rules.reference.cleaner import Log, LogSegment
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings

from infra.kafka import Broker
from tests.conftest import ROOT
from tests.equivalence.produce import close_segment, produce
from tests.equivalence.spark_path import Batch
from tests.equivalence.test_broker_fixture import (
    HELD,
    PARTITIONS,
    RETENTION_MS,
    TOPIC,
    dump,
    now_of_pass,
    wait_cleaned,
)

pytestmark = pytest.mark.kafka
SETTINGS = Settings.model_validate(
    {"min.cleanable.dirty.ratio": 0, "delete.retention.ms": RETENTION_MS, "null.keys": "drop", "segment.bytes": 2**30}
)


def as_row(record):
    return Row(
        offset=record.offset,
        key=record.key,
        value=record.value,
        timestamp=record.timestamp,
        producer=record.producer_id,
        transactional=record.transactional,
        control=record.control,
        batch=record.batch,
    )


def as_segments(records):
    bases = sorted({r.segment for r in records})
    return [LogSegment(b, tuple(as_row(r) for r in records if r.segment == b)) for b in bases]


def physical(records):
    """What is left, record by record; Kafka's horizon counts for tombstones and markers alone."""
    return {
        r.offset: (r.key, r.value, r.timestamp, r.producer_id, r.transactional, r.control,
                   r.delete_horizon if r.control or r.value is None else None)
        for r in records
    }  # fmt: skip


def in_table(batch, partition, horizons):
    found = batch.table.refresh().scan(row_filter=f"partition = {partition}").to_arrow().to_pylist()
    return {
        r["offset"]: (r["key"], r["value"], r["timestamp"], r["producer"], r["transactional"], r["control"],
                      horizons.get(r["offset"]))
        for r in found
    }  # fmt: skip


def test_a_real_broker_and_the_table_keep_the_same_records(catalog, spark, home):
    started = time.monotonic()
    batch = Batch(catalog, spark, home)
    with Broker(ROOT / ".hardpack") as broker:
        broker.create_topic(TOPIC, len(PARTITIONS), HELD)
        produce(broker, TOPIC, len(PARTITIONS))
        before = dump(broker)
        records = sum(map(len, before))
        assert records >= 100_000
        assert any(r.control == "abort" for log in before for r in log)
        batch.create({p: (Log(tuple(as_segments(before[p]))), SETTINGS) for p in PARTITIONS})
        broker.configure(TOPIC, {"cleanup.policy": "compact"})
        wait_cleaned(broker)
        removed = set()
        known = before
        # the second pass comes before the horizons of the first are over, the third after
        for number in range(3):
            after = dump(broker)
            batch.clean({p: now_of_pass(after[p], known[p]) for p in PARTITIONS})
            seen = batch.observe()
            for p in PARTITIONS:
                assert in_table(batch, p, seen[p]["horizons"]) == physical(after[p]), f"pass {number}, partition {p}"
                assert seen[p]["checkpoint"] == broker.checkpoint(TOPIC, p)
                removed |= {(p, r.offset) for r in known[p] if r.value is None and not r.control}
                removed -= {(p, r.offset) for r in after[p]}
            if number == 2:
                break
            if number == 1:
                last = max(r.delete_horizon or 0 for log in after for r in log)
                time.sleep(max(0.0, last / 1000 - time.time()) + 0.01)
            close_segment(broker, TOPIC, len(PARTITIONS), number + 1)
            wait_cleaned(broker)
            batch.append({p: as_segments(broker.dump(TOPIC, p))[-1] for p in PARTITIONS})
            known = after
    assert removed
    print(
        f"{records} records, {len(PARTITIONS)} partitions, 3 passes, 0 differences, {time.monotonic() - started:.0f} s"
    )
