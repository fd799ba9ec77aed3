"""Tables of random records in every layout, and what a consumer of the topic is given of them."""

from itertools import count

import pyarrow as pa
from hardpack.reading.reader import TopicReader
from hardpack.rules.reference.row import Row
from hardpack.rules.reference.transactions import aborted_offsets, last_stable_offset
from hardpack.table.columns import settings_of
from pyiceberg.io.pyarrow import schema_to_pyarrow

from tests.layouts import NO_TRANSACTIONS
from tests.topics import T0

NAMES = count()
KEYS = [b"a", b"b", b"c", "ä".encode(), None]


def topic(catalog, layout, rng, transactions=True):
    """A table of random commits, files in any order of offset, and by log the rows that it was given."""
    table = layout.adopted(catalog, f"reading.t{next(NAMES)}", **({} if transactions else NO_TRANSACTIONS))
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
    schema = schema_to_pyarrow(layout.schema, include_field_ids=False)
    return pa.Table.from_pylist([layout.cells(log, r) for r in rows], schema=schema).to_pylist()
