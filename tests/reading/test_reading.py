"""A table read as the topic gives what its records were, in every layout that sinks leave; no JVM."""

import random
from itertools import count

import pyarrow.parquet as pq
import pytest
from hardpack.errors import BadInput
from hardpack.reading import ordered
from hardpack.reading.reader import TopicReader
from hardpack.rules.reference.row import Row
from hardpack.rules.reference.transactions import aborted_offsets, last_stable_offset
from hardpack.table.columns import settings_of

from tests.layouts import LAYOUTS, MIXED, MIXED_TOPICS, PLAIN
from tests.topics import T0, append, name_of, new_topic, row

NAMES = count()
KEYS = [b"a", b"b", b"c", "ä".encode(), None]


def topic(catalog, layout, rng, transactions=True):
    """A table of random commits, files in any order of offset, and by log the rows that it was given."""
    table = layout.adopted(catalog, f"reading.t{next(NAMES)}", **mapping(layout, transactions))
    logs = {log: records(rng, transactions) for log in range(3)}
    waiting = {log: list(rows) for log, rows in logs.items()}
    while any(waiting.values()):
        commit = {}
        for log, rows in waiting.items():
            # most rows come in order, some late
            some = [rows.pop(0 if rng.random() < 0.7 else rng.randrange(len(rows))) for _ in range(min(7, len(rows)))]
            rng.shuffle(some)
            commit[log] = some
        layout.append(table, {log: rows for log, rows in commit.items() if rows})
    return table.refresh(), logs


def mapping(layout, transactions):
    names = {"column.producer.id": "producer", "column.transactional": "transactional", "column.control": "control"}
    return {} if transactions else dict.fromkeys(names, "")


def records(rng, transactions, start=0):
    """Rows of a log: holes between offsets, times that go back, keyless rows, tombstones, transactions."""
    rows, offset = [], start + rng.randrange(5)
    for _ in range(rng.randrange(10, 60)):
        offset += rng.choice([1, 1, 1, 2, 9])
        time = T0 + rng.randrange(1000) if rng.random() < 0.9 else None
        producer, role = rng.randrange(3), rng.random() if transactions else 1
        if role < 0.2:
            rows.append(Row(offset, None, None, time, producer=producer, control=rng.choice(["commit", "abort"])))
        else:
            value = None if rng.random() < 0.2 else f"v{offset}".encode()
            rows.append(Row(offset, rng.choice(KEYS), value, time, producer=producer, transactional=role < 0.6))
    return rows


def seen(rows, isolation="read_committed"):
    """The rows that a consumer is given."""
    records = [r for r in rows if r.control is None]
    if isolation == "read_uncommitted":
        return records
    aborted, stable = aborted_offsets(rows), last_stable_offset(rows, rows[-1].offset + 1)
    return [r for r in records if r.offset not in aborted and r.offset < stable]


def open_reader(table, layout, partitions=None):
    return TopicReader(table, settings_of(table), partitions=partitions)


def cells(layout, batches):
    """The rows of batches, as the layout has them."""
    return [r for batch in batches for r in batch.to_pylist()]


def as_layout(layout, log, rows):
    """Rows as the layout's table gives them back."""
    if not rows:
        return []
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema = schema_to_pyarrow(layout.schema, include_field_ids=False)
    return pa.Table.from_pylist([layout.cells(log, r) for r in rows], schema=schema).to_pylist()


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
