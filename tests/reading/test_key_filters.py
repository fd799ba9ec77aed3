"""Rows of a key are not looked for where a key filter or a Bloom filter rules it out; no JVM."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hardpack.files.data_files import DataFiles
from hardpack.files.key_reader import KeyColumns, KeyScanFile, key_filters, read_keys
from hardpack.reading.sparse_index import SparseIndex
from hardpack.table.columns import LogColumns, settings_of
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tests.reading.records import open_reader
from tests.reading.tables import arrow, filled, read

DAYS = [date(2026, 1, day) for day in range(1, 9)]
SETTINGS = {"key_filter_min_rows": "1"}
KINDS = {
    "text": (StringType(), [f"k{n}" for n in range(8)], str),
    "bytes": (BinaryType(), [bytes([n, 255]) for n in range(8)], bytes),
    "integers": (IntegerType(), list(range(-4, 4)), str),
    "longs": (LongType(), [n * 2**40 for n in range(8)], str),
    "decimals": (DecimalType(10, 2), [Decimal(n) / 4 for n in range(8)], lambda d: f'"{d:.2f}"'),
    "dates": (DateType(), DAYS, lambda d: f'"{d}"'),
    "times": (
        TimestamptzType(),
        [datetime(2026, 1, day, 1, 2, 3, 4, tzinfo=UTC) for day in range(1, 9)],
        lambda at: f'"{at.isoformat()}"',
    ),
    "local times": (
        TimestampType(), [datetime(2026, 1, day, 1) for day in range(1, 9)], lambda at: f'"{at.isoformat()}"',
    ),
}  # fmt: skip


@pytest.fixture
def opened(monkeypatch):
    """The files of which rows were read, in turn."""
    seen, real = [], DataFiles.rows

    def rows(files, file, *rest, **more):
        seen.append(file.path)
        return real(files, file, *rest, **more)

    monkeypatch.setattr(DataFiles, "rows", rows)
    return seen


def keep_filters(table):
    """A filter of each file, as a pass leaves it that has read the file in vain."""
    files, settings = DataFiles.of(table), settings_of(table)
    columns = LogColumns.of(table.schema(), settings)
    filters = key_filters(files, columns, 1, makes=True)
    content = [file.content for file in open_reader(table, None)._logs.log("0").files]
    for file in content:
        hashes = []

        def near(high, kept=hashes):
            kept.append(high)
            return high < 0

        list(read_keys(files, KeyColumns(columns, b"s"), [KeyScanFile(0, file, "0", 99, 99, True)], near))
        filters.keep(file, "0", hashes)
    return [filters.path(file) for file in content]


def two_files(catalog, kind, keys, **settings):
    """Keys by turns in two files, so that no bound tells them apart; the last but one of all is in neither."""
    rows = [{"offset": at, "key": key} for at, key in enumerate([*keys[:6:2], *keys[1::2]])]
    return filled(catalog, rows[:3], rows[3:], kinds={"key": kind}, **SETTINGS | settings)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_has_not_the_key_is_not_read(catalog, opened, kind):
    column, keys, given = KINDS[kind]
    table = two_files(catalog, column, keys)
    keep_filters(table)
    for key, offset in ((0, 0), (2, 1), (1, 3), (5, 5)):
        opened.clear()
        assert read(table, key=given(keys[key]), of=("offset",)) == [(offset,)]
        assert len(set(opened)) == 1
    opened.clear()
    assert read(table, key=given(keys[6])) == []
    assert opened == []


def test_a_key_of_two_columns(catalog, opened):
    keys = [("k1", None), ("k1", 2), ("k0", 5), ("k0", None), ("k1", 1), ("k2", 4)]
    rows = [{"offset": at, "key": key, "epoch": epoch} for at, (key, epoch) in enumerate(keys)]
    table = filled(catalog, rows[:3], rows[3:], column_key="key,epoch", **SETTINGS)
    keep_filters(table)
    for at, row in enumerate(rows):
        opened.clear()
        given = json.dumps({"key": row["key"], "epoch": row["epoch"]})
        assert read(table, key=given, of=("offset",)) == [(at,)]
        assert len(set(opened)) == 1
    opened.clear()
    assert read(table, key='{"key": "k1", "epoch": 4}') == []
    assert opened == []


def test_a_filter_that_is_damaged_is_none(catalog, opened):
    table = two_files(catalog, StringType(), KINDS["text"][1])
    for path in keep_filters(table):
        Path(path.removeprefix("file://")).write_bytes(b"PAR1" + base64.b64decode("AAAA") * 40)
    assert read(table, key="k6") == []
    assert len(set(opened)) == 2


def test_files_of_few_rows_are_read_without_asking(catalog, opened):
    table = two_files(catalog, StringType(), KINDS["text"][1], key_filter_min_rows="5")
    keep_filters(table)
    assert read(table, key="k6") == []
    assert len(set(opened)) == 2


def test_a_file_is_opened_once_for_all_its_bloom_filters(catalog, tmp_path, opened, monkeypatch):
    """Hundreds of row groups would be hundreds of requests, each for a few bytes."""
    keys = ["a", "a", "z", "z", "b", "b", "-", "z"]
    table = with_bloom_filters(catalog, tmp_path, StringType(), keys, row_group_size=2)
    pieces, real = [], SparseIndex.by_pieces
    monkeypatch.setattr(SparseIndex, "by_pieces", lambda *given: (pieces.append(1), real(*given))[1])
    assert read(table, key="k6") == []
    # one for the footer and one for the filters, of each of two files
    assert len(pieces) == 4
    assert opened == []


def with_bloom_filters(catalog, folder, kind, keys, **options):
    """Keys by turns in two files that another writer made, with Bloom filters of the keys."""
    table, paths = filled(catalog, kinds={"key": kind}), []
    for begin, own in ((0, keys[:6:2]), (3, keys[1::2])):
        rows = arrow(table.schema(), *({"offset": at, "key": key} for at, key in enumerate(own, begin)))
        plain = rows.cast(schema_to_pyarrow(table.schema(), include_field_ids=False))
        paths.append(str(folder / f"{begin}.parquet"))
        pq.write_table(plain, paths[-1], bloom_filter_options={"key": {"ndv": 100, "fpp": 0.001}}, **options)
    table.add_files(paths)
    return table.refresh()


@pytest.mark.parametrize("kind", ["text", "bytes", "integers", "longs"])
def test_a_row_group_whose_bloom_filter_has_not_the_key_is_not_read(catalog, tmp_path, opened, kind):
    column, keys, given = KINDS[kind]
    table = with_bloom_filters(catalog, tmp_path, column, keys)
    for key, offset in ((0, 0), (2, 1), (1, 3), (5, 5)):
        opened.clear()
        assert read(table, key=given(keys[key]), of=("offset",)) == [(offset,)]
        assert len(set(opened)) == 1
    opened.clear()
    assert read(table, key=given(keys[6])) == []
    assert opened == []
