"""Small topics for tests: rows in, tables out, rows back."""

from __future__ import annotations

import random
from contextlib import contextmanager
from functools import partial
from itertools import count
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hardpack.compaction.session import TableSession
from hardpack.demo.topic import COLUMNS, create_topic
from hardpack.rules.reference.cleaner import Row
from hardpack.table.schema_columns import find_column

_names = count()
T0 = 1_600_000_000_000


def new_topic(catalog, **settings):
    """An empty topic with a name of its own; settings by their names with underscores."""
    properties = {f"hardpack.{k.replace('_', '.')}": str(v) for k, v in settings.items()}
    return create_topic(catalog, f"t.topic{next(_names)}", properties)


def name_of(table):
    return ".".join(table.name())


def append(table, logs, at=T0):
    """One commit, one file per log: `logs` is partition -> rows."""
    rows = [(p, r) for p, found in logs.items() for r in found]
    table.append(
        pa.table(
            {
                "partition": pa.array([p for p, _ in rows], pa.int32()),
                "offset": [r.offset for _, r in rows],
                "timestamp": pa.array([at * 1000] * len(rows), pa.int64()).cast(COLUMNS.field("timestamp").type),
                "key": pa.array([r.key for _, r in rows], pa.binary()),
                "value": pa.array([None if r.value is None else r.value.decode() for _, r in rows], pa.string()),
            },
            schema=COLUMNS,
        )
    )


@contextmanager
def without_statistics():
    """While this holds, Parquet files are written without statistics, so that nothing tells their bounds."""
    with patch.object(pq, "ParquetWriter", partial(pq.ParquetWriter, write_statistics=False)):
        yield


def columns_of(found, *names):
    """The columns of these names, in a table or in what reads its files."""
    schema = found.schema() if callable(found.schema) else found.schema
    return [find_column(schema, name) for name in names]


def rows_of(table, partition=0):
    """The rows of one log, by offset."""
    found = table.refresh().scan(row_filter=f"partition = {partition}").to_arrow().sort_by("offset").to_pylist()
    return [Row(r["offset"], r["key"], None if r["value"] is None else r["value"].encode()) for r in found]


def offsets(table, partition=0):
    """The offsets of one log, in order."""
    return [r.offset for r in rows_of(table, partition)]


def superseded_once(catalog):
    """A topic in three commits: a pass touches the first file alone and drops its offset 0; 4 is active."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "d")]})
    return table


def row(offset, key, value="v"):
    return Row(offset, None if key is None else key.encode(), None if value is None else value.encode())


def random_rows(rng: random.Random, start: int, number: int, keys: int, null_keys: bool = True) -> list[Row]:
    """Rows with rising offsets that have holes, some tombstones, some without key."""
    rows, offset = [], start
    for _ in range(number):
        offset += rng.choice([1, 1, 1, 2, 5])
        key = None if null_keys and rng.random() < 0.05 else f"k{rng.randrange(keys)}".encode()
        value = None if key is not None and rng.random() < 0.25 else f"v{offset}".encode()
        rows.append(Row(offset, key, value))
    return rows


def session_of(table, jvm=None):
    """A session for one verb; without a table by the JVM none is opened."""

    def no_jvm():
        raise AssertionError("this needs no JVM")

    return TableSession(table, no_jvm if jvm is None else lambda: jvm)
