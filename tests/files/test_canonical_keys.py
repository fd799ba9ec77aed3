"""Keys of several columns and types as bytes: equal where the columns are, and nowhere else."""

import datetime
import decimal
import uuid
from itertools import combinations

import pyarrow as pa
import pytest
from hardpack.files.canonical_keys import keys_of
from hardpack.table.columns import LogColumns
from hardpack.table.schema_columns import LogColumn
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    UUIDType,
)

OFFSET = LogColumn(1, LongType(), ("offset",))
KINDS = {
    "int": (IntegerType(), pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (LongType(), pa.int64(), st.integers(-3, 3)),
    "string": (StringType(), pa.string(), st.text("ab\0", max_size=3)),
    "binary": (BinaryType(), pa.binary(), st.binary(max_size=2)),
    "uuid": (UUIDType(), pa.uuid(), st.integers(0, 3).map(lambda n: uuid.UUID(int=n).bytes)),
    "decimal": (DecimalType(9, 2), pa.decimal128(9, 2), st.integers(-3, 3).map(lambda n: decimal.Decimal(n) / 4)),
    "date": (DateType(), pa.date32(), st.dates(datetime.date(1969, 12, 30), datetime.date(1970, 1, 3))),
    "timestamp": (TimestampType(), pa.timestamp("us"), st.integers(-2, 2).map(lambda n: n * 999_999)),
}


def canonical(rows, names):
    keys = tuple(LogColumn(at, KINDS[name][0], (f"k{at}",)) for at, name in enumerate(names, 2))
    columns = LogColumns(OFFSET, OFFSET, OFFSET, keys)
    arrays = [
        pa.array([row[at] for row in rows], pa.binary(16)).cast(pa.uuid()) if name == "uuid"
        else pa.array([row[at] for row in rows], KINDS[name][1])
        for at, name in enumerate(names)
    ]  # fmt: skip
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in keys])
    found, absent = keys_of(batch, columns)
    return found.to_pylist(), absent.tolist()


@given(st.data())
def test_keys_are_equal_where_their_columns_are(data):
    names = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=3))
    row = st.tuples(*(st.none() | KINDS[name][2] for name in names))
    rows = data.draw(st.lists(row, min_size=2, max_size=12))
    keys, absent = canonical(rows, names)
    for (one, key), (other, same) in combinations(zip(rows, keys, strict=True), 2):
        assert (key == same) == (one == other)
    assert absent == [all(value is None for value in row) for row in rows]


@pytest.mark.parametrize("value", [0, -1, 7, 2**31 - 1])
def test_a_column_that_was_widened_gives_the_same(value):
    assert canonical([(value, "a")], ["int", "string"]) == canonical([(value, "a")], ["long", "string"])


def test_one_column_that_is_no_text_is_encoded_too():
    keys, absent = canonical([(5,), (None,), (5,)], ["long"])
    assert keys[0] == keys[2] != keys[1]
    assert keys[0] == b"\1\0\0\0\x08\0\0\0\0\0\0\0\x05"
    assert absent == [False, True, False]


def test_a_slice_of_a_batch_gives_its_own_keys():
    keys = (LogColumn(2, LongType(), ("a",)), LogColumn(3, StringType(), ("b",)))
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3, None], "b": ["x", "y", None, None]})
    whole, _ = keys_of(batch, LogColumns(OFFSET, OFFSET, OFFSET, keys))
    part, absent = keys_of(batch.slice(2), LogColumns(OFFSET, OFFSET, OFFSET, keys))
    assert part.to_pylist() == whole.to_pylist()[2:]
    assert absent.tolist() == [False, True]
