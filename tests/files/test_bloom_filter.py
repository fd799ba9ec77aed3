"""A value that a column chunk has is never ruled out by its Bloom filter, and most others are; no JVM."""

import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.files.bloom_filter import hashed_bytes, rules_out
from hardpack.files.compact_protocol import I32, STRUCT, Malformed, written
from hardpack.files.page_index import CountedFile

ROWS = 2_000
COLUMNS = {
    "text": pa.array([f"kä{n}" for n in range(ROWS)]),
    "bytes": pa.array([n.to_bytes(3, "big") for n in range(ROWS)], pa.binary()),
    "integers": pa.array(range(-ROWS // 2, ROWS // 2), pa.int32()),
    "longs": pa.array([n * 2**40 for n in range(-ROWS // 2, ROWS // 2)], pa.int64()),
    "fixed": pa.array([uuid.uuid5(uuid.NAMESPACE_URL, str(n)).bytes for n in range(ROWS)], pa.binary(16)),
}
OTHERS = {
    "text": [f"other{n}" for n in range(ROWS)],
    "bytes": [b"x" + n.to_bytes(3, "big") for n in range(ROWS)],
    "integers": range(ROWS, 2 * ROWS),
    "longs": range(1, ROWS + 1),
    "fixed": [uuid.uuid5(uuid.NAMESPACE_OID, str(n)).bytes for n in range(ROWS)],
}


def by_arrow(values, path):
    options = {"c": {"ndv": ROWS, "fpp": 0.01}}
    pq.write_table(pa.table({"c": values}), path, bloom_filter_options=options)


def by_duckdb(values, path):
    # it has filters where it has dictionaries
    with duckdb.connect() as db:
        twice = pa.table({"c": pa.concat_arrays([values, values])})
        db.from_arrow(twice).query("t", f"copy t to '{path}' (format parquet, dictionary_size_limit 100000)")


def chunk_of(path):
    """The file, and of its only column where the filter begins and Parquet's physical type."""
    column = pq.read_metadata(path).row_group(0).column(0)
    assert column.bloom_filter_offset
    return CountedFile(path.open("rb"), path.stat().st_size), column.bloom_filter_offset, column.physical_type


@pytest.mark.parametrize(
    ("writes", "kind"),
    # DuckDB writes bytes of one length as bytes of any
    [*((by_arrow, kind) for kind in COLUMNS), *((by_duckdb, kind) for kind in COLUMNS if kind != "fixed")],
)
def test_no_value_that_is_there_is_ruled_out_and_most_others_are(tmp_path, writes, kind):
    writes(COLUMNS[kind], tmp_path / "f.parquet")
    file, start, physical_type = chunk_of(tmp_path / "f.parquet")
    for value in COLUMNS[kind].to_pylist():
        assert not rules_out(file, start, hashed_bytes(value, physical_type))
    passed = sum(not rules_out(file, start, hashed_bytes(value, physical_type)) for value in OTHERS[kind])
    assert passed < ROWS / 20


def test_a_header_and_a_block_are_all_that_is_read(tmp_path):
    by_arrow(COLUMNS["text"], tmp_path / "f.parquet")
    file, start, physical_type = chunk_of(tmp_path / "f.parquet")
    rules_out(file, start, hashed_bytes("other", physical_type))
    assert file.given == 64 + 32


@pytest.mark.parametrize(
    ("value", "physical_type"),
    [
        (None, "INT32"),
        (True, "BOOLEAN"),
        (1.5, "DOUBLE"),
        (2**31, "INT32"),
        (1, "INT96"),
        ("a", "INT64"),
        (b"a", "INT32"),
    ],
)
def test_values_that_cannot_be_looked_for(value, physical_type):
    assert hashed_bytes(value, physical_type) is None


def test_an_integer_is_hashed_as_wide_as_the_file_has_it():
    assert hashed_bytes(-1, "INT32") == b"\xff" * 4
    assert hashed_bytes(-1, "INT64") == b"\xff" * 8
    assert hashed_bytes(-(2**31), "INT32") == b"\0\0\0\x80"


def header(size=32, algorithm=1, hashing=1, codec=1):
    empty = written()
    kinds = [(at, STRUCT, written((kind, STRUCT, empty))) for at, kind in ((2, algorithm), (3, hashing), (4, codec))]
    return written((1, I32, size), *kinds) + b"\0" * 32


def asked(tmp_path, data):
    path = tmp_path / "filter"
    path.write_bytes(data)
    return rules_out(CountedFile(path.open("rb"), len(data)), 0, b"value")


@pytest.mark.parametrize("kind", ["algorithm", "hashing", "codec"])
def test_a_filter_of_a_kind_to_come_rules_nothing_out(tmp_path, kind):
    assert asked(tmp_path, header())
    assert not asked(tmp_path, header(**{kind: 2}))


@pytest.mark.parametrize("data", [header(size=0), header(size=33), header(size=-32), b"\0" * 64, header()[:-20], b""])
def test_a_damaged_filter_is_an_error_of_the_file(tmp_path, data):
    with pytest.raises((Malformed, OSError)):
        asked(tmp_path, data)
