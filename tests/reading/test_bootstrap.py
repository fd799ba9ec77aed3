"""The state that a reader begins with, and the offset at which it goes on, give what consuming everything gives."""

import random

import pytest
from hardpack.reading import bootstrap
from hardpack.rules.reference.transactions import last_stable_offset

from tests.layouts import MIXED, NESTED, PLAIN, TOPICS
from tests.reading.records import as_layout, cells, open_reader, records, seen, topic

SHAPES = (PLAIN, NESTED, TOPICS, MIXED)


def consumed(rows):
    """The latest row of each key."""
    state = {}
    for row in rows:
        if row.key is not None:
            state.pop(row.key, None)
            state[row.key] = row
    return [row for row in state.values() if row.value is not None]


@pytest.mark.parametrize("gathered", [3, 4_000_000])
@pytest.mark.parametrize("layout", SHAPES, ids=[layout.name for layout in SHAPES])
def test_a_state_and_what_follows_are_the_topic(catalog, monkeypatch, layout, gathered):
    monkeypatch.setattr(bootstrap, "GATHERED", gathered)
    rng = random.Random(5)
    table, logs = topic(catalog, layout, rng)
    reader = open_reader(table, layout)
    for log, rows in logs.items():
        name = str(layout.log(log))
        found = reader.bootstrap([name])
        assert found.snapshot_id == reader.snapshot_id
        assert cells(layout, found.rows) == as_layout(layout, log, consumed(seen(rows)))
        # Kafka has further records, which decide what was open
        everything = rows + records(rng, True, rows[-1].offset + 1)
        further = [row for row in seen(everything) if row.offset >= found.offsets[name]]
        together = [*seen(rows), *further]
        assert together == seen(everything), "no record is missed and none comes twice"
        assert found.offsets[name] == last_stable_offset(rows, rows[-1].offset + 1)


def test_all_logs_of_a_table(catalog):
    table, logs = topic(catalog, PLAIN, random.Random(6), transactions=False)
    found = open_reader(table, PLAIN).bootstrap()
    assert found.offsets == {str(log): rows[-1].offset + 1 for log, rows in logs.items()}
    wanted = [r for log, rows in logs.items() for r in as_layout(PLAIN, log, consumed(rows))]
    assert cells(PLAIN, found.rows) == wanted
