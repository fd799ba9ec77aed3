"""Random logs through Spark, many as partitions of one table, against the reference cleaner (invariant 8)."""

import random

import pytest
from hardpack.lake.state import read_state
from hardpack.log.model import LogState
from hardpack.log.reference import clean

from tests.topics import T0, append, name_of, new_topic, random_rows, rows_of

pytestmark = pytest.mark.spark
LOGS = 24


@pytest.mark.parametrize("seed", [1, 2])
def test_surviving_rows_horizons_and_checkpoints_equal_the_reference(hp, catalog, seed):
    rng = random.Random(seed)
    retention = rng.choice([0, 5, 1000])
    table = new_topic(
        catalog, null_keys="drop", min_cleanable_dirty_ratio=0, delete_retention_ms=retention, segment_bytes=1024 * 1024
    )
    name = name_of(table)
    rows = {p: [] for p in range(LOGS)}
    states = dict.fromkeys(rows, LogState())
    for step in range(4):
        now = T0 + step * 5
        bounds = {}
        for _ in range(rng.choice([1, 2])):
            segment = {}
            for p in rows:
                start = rows[p][-1].offset + rng.choice([1, 10]) if rows[p] else rng.choice([0, 7])
                segment[p] = random_rows(rng, start, rng.randrange(1, 40), keys=12)
                bounds[p] = segment[p][0].offset
            for p, found in segment.items():
                rows[p] = [*rows[p], *found]
            append(table, segment, at=now)
        hp.clean_like_kafka(name, now=now)
        for p, known in rows.items():
            start = states[p].checkpoint or 0
            if any(start <= r.offset < bounds[p] for r in known):
                out = clean(known, states[p], start, bounds[p], now, retention)
                rows[p], states[p] = list(out.rows), out.state
    found = read_state(name, table.refresh().properties)
    for p in rows:
        assert rows_of(table, p) == rows[p], f"log {p} of seed {seed}"
        if states[p].checkpoint is not None:
            assert found[str(p)].checkpoint == states[p].checkpoint
            assert found[str(p)].horizons == states[p].horizons
    assert hp.verify(name, now=now).success
