"""A table read as the topic gives what its records were, in every layout that sinks leave; no JVM."""

import random

import pyarrow.parquet as pq
import pytest
from hardpack.errors import BadInput
from hardpack.reading import ordered
from hardpack.rules.reference.row import Row

from tests.layouts import LAYOUTS, MIXED, MIXED_TOPICS, PLAIN
from tests.reading.records import KEYS, as_layout, cells, open_reader, seen, topic
from tests.topics import T0, append, name_of, new_topic, row

SHAPES = (*LAYOUTS, MIXED, MIXED_TOPICS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", SHAPES, ids=[layout.name for layout in SHAPES])
def test_every_log_is_read_as_it_was_written(catalog, layout, seed):
    rng = random.Random(seed)
    table, logs = topic(catalog, layout, rng)
    reader = open_reader(table, layout)
    for log, rows in logs.items():
        name = layout.log(log)
        assert cells(layout, reader.read([name])) == as_layout(layout, log, seen(rows))
        uncommitted = reader.read([name], isolation_level="read_uncommitted")
        assert cells(layout, uncommitted) == as_layout(layout, log, seen(rows, "read_uncommitted"))
        start, end = sorted(rng.choices(range(rows[-1].offset + 3), k=2))
        part = [r for r in seen(rows) if start <= r.offset < end]
        assert cells(layout, reader.read([name], start, end)) == as_layout(layout, log, part)


@pytest.mark.parametrize("layout", SHAPES, ids=[layout.name for layout in SHAPES])
def test_a_place_is_found_as_by_looking_at_every_row(catalog, layout):
    table, logs = topic(catalog, layout, random.Random(7))
    reader = open_reader(table, layout)
    for log, rows in logs.items():
        name = layout.log(log)
        for offset in range(rows[-1].offset + 2):
            found = reader.seek(name, offset)
            wanted = next((r for r in rows if r.offset >= offset), None)
            assert (found and (found.offset, found.timestamp)) == (wanted and (wanted.offset, ms(wanted)))
        for time in [0, T0, *(r.timestamp for r in rows if r.timestamp), T0 + 1000]:
            found = reader.offset_for_time(name, time)
            wanted = next((r for r in rows if r.timestamp is not None and r.timestamp >= time), None)
            assert (found and (found.offset, found.timestamp)) == (wanted and (wanted.offset, ms(wanted)))
            if found:
                place = pq.read_table(found.file.removeprefix("file://")).slice(found.row, 1)
                assert str(found.offset) in str(place.to_pylist()), "the row is where it was said to be"


def ms(row):
    return -1 if row.timestamp is None else row.timestamp


@pytest.mark.parametrize("layout", SHAPES, ids=[layout.name for layout in SHAPES])
def test_one_key_is_read(catalog, layout):
    table, logs = topic(catalog, layout, random.Random(11))
    reader = open_reader(table, layout)
    for log, rows in logs.items():
        for key in KEYS[:-1]:
            own = [r for r in seen(rows) if r.key == key]
            given = key_of(layout, log, key)
            assert cells(layout, reader.read([layout.log(log)], key=given)) == as_layout(layout, log, own)


def key_of(layout, log, key):
    """A key as it is given for the layout."""
    import json

    cell = layout.cells(log, Row(0, key, b""))
    *around, leaf = layout.path("key").split(".")
    value = (cell[around[0]] if around else cell)[leaf]
    if isinstance(value, dict):
        return json.dumps(value | {"day": value["day"].isoformat()}).encode()
    return value.encode() if isinstance(value, str) else value


def test_logs_are_mixed_by_time_and_stay_in_order(catalog):
    table, logs = topic(catalog, PLAIN, random.Random(3), transactions=False)
    found = cells(PLAIN, open_reader(table, PLAIN).read(by_time=True, columns=["partition", "offset", "timestamp"]))
    for log, rows in logs.items():
        assert [r["offset"] for r in found if r["partition"] == log] == [r.offset for r in seen(rows)]
    latest, at = {}, []
    for r in found:
        latest[r["partition"]] = max(latest.get(r["partition"], -1), -1 if r["timestamp"] is None else r["timestamp"])
        at.append(latest[r["partition"]])
    assert at == sorted(at)


@pytest.mark.parametrize("most", [0, 2_000])
def test_what_memory_does_not_hold_is_sorted_beside_the_disk(catalog, monkeypatch, most):
    monkeypatch.setattr(ordered, "IN_MEMORY", most)
    monkeypatch.setattr(ordered, "AT_ONCE", 7)
    table = new_topic(catalog)
    offsets = random.Random(1).sample(range(1000), 300)
    append(table, {0: [row(o, "k", f"v{o}") for o in offsets]})
    reader = open_reader(table, PLAIN)
    found = [r for batch in reader.read() for r in batch.to_pylist()]
    assert [(r["offset"], r["value"]) for r in found] == [(o, f"v{o}") for o in sorted(offsets)]


def test_an_offset_that_stands_twice_is_read_once(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b"), row(2, "c")]})
    append(table, {0: [row(1, "b"), row(2, "c"), row(3, "d")]})
    reader = open_reader(table, PLAIN)
    assert [r["offset"] for r in cells(PLAIN, reader.read())] == [0, 1, 2, 3]


def test_rows_of_one_offset_that_differ_are_refused_by_a_sentence(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b", "one")]})
    append(table, {0: [row(1, "b", "two"), row(2, "c")]})
    with pytest.raises(BadInput, match=r"partition 0 at offset 1 differ.*column\.leader\.epoch") as told:
        list(open_reader(table, PLAIN).read())
    assert "two" not in str(told.value)


def test_bad_input_is_told_in_a_sentence(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    reader = open_reader(table, PLAIN)
    with pytest.raises(BadInput, match="there is no partition 7, it has 0"):
        list(reader.read([7]))
    with pytest.raises(BadInput, match="there is no partition 7, it has 0"):
        reader.seek(7, 0)
    with pytest.raises(BadInput, match="there is no column 'x', expected some of partition, offset"):
        list(reader.read(columns=["x"]))


def test_a_table_without_rows_has_no_logs(catalog):
    reader = open_reader(new_topic(catalog), PLAIN)
    assert (reader.snapshot_id, reader.partitions, list(reader.read())) == (None, [], [])


def test_a_file_that_is_gone_is_named(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    (task,) = table.refresh().scan().plan_files()
    table.io.delete(task.file.file_path)
    reader = open_reader(table, PLAIN)
    for work in (lambda: list(reader.read()), lambda: reader.seek(0, 0)):
        with pytest.raises(BadInput, match=f"{name_of(table)}: data file .* is missing"):
            work()
