"""Filters of keys: never one that hides a key, lost or damaged ones do no harm; no JVM."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.files.data_files import DataFiles
from hardpack.files.key_filter import BITS, KeyFilters, Wanted
from hardpack.files.key_hash import HashedRows, HeadKeys, high_half, log_hash, low_half
from hardpack.files.key_reader import KeyColumns, KeyScanFile
from hardpack.rules.settings import Settings
from hardpack.spark.causes.superseded import _probe
from hardpack.table.columns import LogColumns
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from tests.files.test_data_files import refs
from tests.files.test_row_deletes import damages
from tests.topics import append, new_topic, row

NEAR = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**18), st.integers(2**64 - 2**18, 2**64 - 1))
"""Numbers that often differ in their last bits alone."""


@given(st.lists(NEAR, min_size=1, max_size=60), st.lists(NEAR, max_size=60))
def test_a_key_is_found_when_it_is_there(wanted, kept):
    short = sorted({n >> (64 - BITS) for n in kept})
    found = Wanted(np.array(sorted(wanted), np.uint64)).any_in(np.array(short, np.uint64))
    assert found == bool({n >> (64 - BITS) for n in wanted} & set(short))


@given(st.lists(NEAR, min_size=1, max_size=60), st.lists(NEAR, max_size=60))
def test_no_row_of_a_wanted_key_is_left_out(wanted, rows):
    near = Wanted(np.array(sorted(wanted), np.uint64)).near(np.array(rows, np.uint64))
    assert all(found for found, row in zip(near, rows, strict=True) if row in wanted)


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(o, f"k{o}") for o in range(50)]})
    append(table, {0: [row(o, f"k{o}") for o in range(50, 90)]})
    return table


@pytest.fixture
def filters(topic):
    return KeyFilters(topic.io, topic.location(), "hash 4", 40)


class Counting(DataFiles):
    """Remembers which files were read."""

    def read(self, file, columns):
        self.__dict__.setdefault("reads", []).append(file.path)
        return super().read(file, columns)


def probed(topic, filters, keys, unread=b""):
    """What a pass with these keys in its head finds in the files, and which it read."""
    files = Counting.of(topic)
    held = pa.array(sorted(keys), pa.binary())
    high, low = high_half(held, log_hash("0")), low_half(held, log_hash("0", b"salt"), b"salt")
    none = np.zeros(len(high), np.uint64)
    tail = [KeyScanFile(n, ref, "0", 90, 120, True, unread) for n, ref in enumerate(refs(topic))]
    columns = KeyColumns(LogColumns.of(files.schema, Settings()), b"salt")
    pieces = list(_probe(files, columns, filters, tail, HeadKeys.of(HashedRows(high, low, none, none))))
    found = {number: BitMap.deserialize(places).to_array().tolist() for (number, _), places in pieces}
    numbers = {ref.path: n for n, ref in enumerate(refs(topic))}
    return found, [numbers[path] for path in files.__dict__.get("reads", [])]


def kept(topic, filters):
    return [n for n, ref in enumerate(refs(topic)) if Path(filters.path(ref).removeprefix("file://")).exists()]


def test_a_clean_file_is_not_read_a_second_time_in_vain(topic, filters):
    assert probed(topic, filters, [b"k3"]) == ({0: [3]}, [0, 1])
    assert kept(topic, filters) == [1]
    assert probed(topic, filters, [b"k4"]) == ({0: [4]}, [0])
    assert probed(topic, filters, [b"other"]) == ({}, [0])
    assert kept(topic, filters) == [0, 1]
    assert probed(topic, filters, [b"other"]) == ({}, [])
    assert probed(topic, filters, [b"k50", b"k89"]) == ({1: [0, 39]}, [1])


@pytest.mark.parametrize("keys", [[], [9 << 60], [9 << 60, 1 << 60, 9 << 60]])
def test_a_filter_holds_each_key_once(topic, filters, keys):
    """Also of a file of control rows, which have none."""
    file = refs(topic)[0]
    filters.keep(file, "0", [np.array(keys, np.uint64)])
    held = pq.read_table(filters.path(file).removeprefix("file://"))["hash"].to_pylist()
    assert held == sorted({key >> (64 - BITS) for key in keys})
    assert filters.rules_out(file, "0", lambda: Wanted(np.array([5 << 60], np.uint64)))


def test_a_filter_that_cannot_be_trusted_is_none(topic, filters):
    probed(topic, filters, [b"other"])
    of_another = KeyFilters(filters.io, filters.location, "hash 5", 40)
    assert probed(topic, of_another, [b"k3"]) == ({0: [3]}, [0, 1])
    probed(topic, filters, [b"other"])
    damaged, lost = (Path(filters.path(ref).removeprefix("file://")) for ref in refs(topic))
    damaged.write_bytes(damaged.read_bytes()[:-30] + b"?" * 30)
    lost.unlink()
    assert probed(topic, filters, [b"k3", b"k50"]) == ({0: [3], 1: [0]}, [0, 1])


def test_a_flipped_bit_is_noticed(topic, filters):
    probed(topic, filters, [b"other"])
    path = Path(filters.path(refs(topic)[0]).removeprefix("file://"))
    blob = bytearray(path.read_bytes())
    blob[60] ^= 1
    path.write_bytes(blob)
    assert probed(topic, filters, [b"k3"])[0] == {0: [3]}


def test_no_damaged_filter_is_believed(topic, filters, caplog):
    """Whatever bytes of it change, a filter holds the same keys or is none, and nothing escapes."""
    rng, file = random.Random(5), refs(topic)[0]
    keys = np.array([rng.getrandbits(64) for _ in range(50)], np.uint64)
    filters.keep(file, "0", [keys])
    path = Path(filters.path(file).removeprefix("file://"))
    sound, wanted = path.read_bytes(), [Wanted(keys[n : n + 1]) for n in range(50)]
    assert not any(filters.rules_out(file, "0", lambda one=one: one) for one in wanted)
    none = 0
    for _ in range(2500):
        path.write_bytes(damages(rng, sound))
        kept = filters.read(file, "0")
        assert kept is None or all(one.any_in(kept) for one in wanted)
        none += kept is None
    assert none > 1200
    assert "is made again" in caplog.text


@pytest.mark.parametrize(
    "other",
    [
        lambda table: table.replace_schema_metadata(None),
        lambda table: table.replace_schema_metadata({**table.schema.metadata, b"hardpack.digest": b"0" * 32}),
        lambda table: table.replace_schema_metadata({b"hardpack.keys": table.schema.metadata[b"hardpack.keys"][2:]}),
        lambda table: table.rename_columns(["other"]),
        lambda table: table.slice(1),
        lambda table: table.set_column(0, "hash", pa.array([None] * len(table), pa.int64())),
        lambda table: table.set_column(0, "hash", pa.array(["x"] * len(table))),
    ],
    ids=["no metadata", "another digest", "no version", "another column", "fewer keys", "nulls", "texts"],
)
def test_a_filter_that_says_something_else_is_none(topic, filters, other):
    file = refs(topic)[0]
    filters.keep(file, "0", [np.arange(50, dtype=np.uint64) << np.uint64(56)])
    path = Path(filters.path(file).removeprefix("file://"))
    assert filters.read(file, "0") is not None
    pq.write_table(other(pq.read_table(path)), path)
    assert filters.read(file, "0") is None


def test_small_files_and_files_with_hidden_or_keyless_rows_get_none(topic, filters):
    append(topic, {0: [row(o, None if o == 100 else f"k{o}") for o in range(90, 140)]})
    assert probed(topic, KeyFilters(filters.io, filters.location, "hash 4", 51), [b"other"])[1] == [0, 1, 2]
    probed(topic, filters, [b"other"], BitMap([1]).serialize())
    assert kept(topic, filters) == []
    probed(topic, filters, [b"other"])
    assert kept(topic, filters) == [0, 1]


def test_a_pass_does_without_filters_where_none_can_be_written(topic, filters, caplog):
    folder = Path(filters.path(refs(topic)[0]).removeprefix("file://")).parent
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("in the way")
    assert probed(topic, filters, [b"k3"]) == ({0: [3]}, [0, 1])
    assert "no key filter" in caplog.text
    assert "k3" not in caplog.text
