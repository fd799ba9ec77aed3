"""Bounds and counts of written files without a JVM: what sensing needs, and truncation that never excludes a value."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.files.column_metrics import bytes_above, text_above
from hardpack.files.data_files import DataFiles
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import LongType, NestedField

from tests.files.test_data_files import refs
from tests.samples import SCHEMA, new_table, rows, write
from tests.topics import append, new_topic, row

LETTERS = st.text(st.sampled_from(["a", "\x7f", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]), max_size=6)


def held(entry, kind):
    return dict(zip(entry[kind]["keys"], entry[kind]["values"], strict=True))


def bound(entry, kind, schema, name):
    field = schema.find_field(name)
    found = held(entry, kind).get(field.field_id)
    return None if found is None else from_bytes(field.field_type, bytes.fromhex(found))


@given(LETTERS, st.integers(1, 4))
def test_truncated_texts_lie_above(text, length):
    above = text_above(text, length)
    if above is None:
        assert text[:length] == "\U0010ffff" * length
    else:
        assert len(above) <= length
        assert above.encode() >= text.encode()


@given(st.lists(st.sampled_from([0, 1, 127, 128, 254, 255]), max_size=6), st.integers(1, 4))
def test_truncated_bytes_lie_above(numbers, length):
    above = bytes_above(bytes(numbers), length)
    if above is None:
        assert numbers[:length] == [255] * length
    else:
        assert above >= bytes(numbers)
        assert len(above) <= length


@pytest.mark.parametrize("mode", ["none", "counts", "truncate(1)"])
def test_the_columns_by_which_files_are_known_have_their_metrics_whatever_the_mode(catalog, mode):
    modes = {f"write.metadata.metrics.column.{name}": mode for name in ("partition", "offset", "timestamp", "key")}
    table = new_table(catalog, {"write.metadata.metrics.default": mode} | modes)
    keys = [b"a", None, b"bc"]
    _, (entry,) = write(table, [rows(random.Random(1), 3, key=keys, value=[None, None, "v"])], sensing=True)
    schema = table.schema()
    assert [bound(entry, f"{end}-bounds", schema, "offset") for end in ("lower", "upper")] == [0, 2]
    assert bound(entry, "lower-bounds", schema, "partition") == 0
    assert bound(entry, "upper-bounds", schema, "timestamp") is not None
    nulls = held(entry, "null-value-counts")
    assert [nulls[schema.find_field(name).field_id] for name in ("offset", "key", "value")] == [0, 1, 2]
    with_bounds = {schema.find_column_name(number) for number in held(entry, "lower-bounds")}
    if mode != "truncate(1)":
        assert with_bounds == {"partition", "offset", "timestamp"}


def test_a_table_of_many_columns_keeps_the_bounds_of_its_offsets(catalog):
    """Behind the hundredth column Iceberg keeps no metrics unless told to."""
    schema_of = [NestedField(1000 + n, f"c{n:03}", LongType()) for n in range(120)]
    fields = [f for f in SCHEMA.fields[:5] if f.name != "partition"]
    partition = SCHEMA.find_field("partition")
    schema = type(SCHEMA)(partition, *schema_of, *fields)
    table = new_table(catalog, schema=schema)
    files, (entry,) = write(table, [rows(random.Random(1), 9, schema)], sensing=True)
    assert [bound(entry, f"{end}-bounds", files.schema, "offset") for end in ("lower", "upper")] == [0, 8]
    assert bound(entry, "lower-bounds", files.schema, "c098") is not None
    assert bound(entry, "lower-bounds", files.schema, "c099") is None


def test_bytes_that_are_no_text_have_no_bounds(catalog):
    """Foreign writers put them into columns of strings, and engines do not agree on their order."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    (batch,) = DataFiles.of(table).read_whole(refs(table)[0])
    texts = batch["value"]
    broken = pa.Array.from_buffers(texts.type, 1, [None, texts.buffers()[1], pa.py_buffer(b"\xff")])
    broken = batch.set_column(batch.schema.names.index("value"), "value", broken)
    files, (entry,) = write(table, [broken])
    assert bound(entry, "lower-bounds", files.schema, "value") is None
    assert bound(entry, "lower-bounds", files.schema, "key") == b"a"


def test_row_groups_begin_where_the_file_says(catalog):
    table = new_table(catalog, {"write.parquet.row-group-size-bytes": "20000"})
    _, (entry,) = write(table, [rows(random.Random(1), 1000) for _ in range(3)])
    footer = pq.read_metadata(entry["file-path"].removeprefix("file://"))
    assert footer.num_row_groups == len(entry["split-offsets"]) == 3
    assert entry["split-offsets"] == sorted(entry["split-offsets"])
    assert entry["split-offsets"][0] == 4
