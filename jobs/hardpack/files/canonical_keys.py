"""Encodes keys of several columns, or of other types than text and bytes, as bytes.

Two keys are equal exactly when their encodings are. Each column contributes a byte that says whether there is a value,
the value's length in four bytes, and the value. Whole numbers, dates and timestamps take eight bytes each, so that
widening a column does not change its encoding. A decimal is encoded as its text. Key filters were made from this
encoding: another encoding needs another version of `IDENTITY`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.types import DecimalType, IcebergType

from hardpack.table.columns import LogColumns
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    import pyarrow as pa

IDENTITY = "canonical 1"


def keys_of(batch: pa.RecordBatch, columns: LogColumns) -> tuple[pa.Array, np.ndarray]:
    """Returns the key of each row as text or bytes, and which rows have none.

    Args:
        batch: with the columns of the key under their full names.
        columns: the table's.
    """
    import pyarrow.compute as pc

    if columns.plain_key is None:
        return _canonical(batch, columns.keys)
    keys = batch[columns.plain_key.name]
    without = nulls_of(keys)
    if columns.empty_key_is_absent:
        without |= np.asarray(pc.fill_null(pc.equal(pc.binary_length(keys), 0), False))
    return keys, without


def _canonical(batch: pa.RecordBatch, columns: Sequence[LogColumn]) -> tuple[pa.Array, np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    absent, parts = np.ones(len(batch), bool), []
    for column in columns:
        values = batch[column.name]
        nulls = nulls_of(values)
        absent &= nulls
        texts = _value(values.storage if isinstance(values, pa.ExtensionArray) else values, column.field_type)
        lengths = np.asarray(pc.fill_null(pc.binary_length(texts), 0)).astype(">u4")
        parts += [_fixed((~nulls).astype(np.uint8)), _fixed(lengths), pc.fill_null(texts, b"")]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary())), absent


def _value(values: pa.Array, kind: IcebergType) -> pa.Array:
    """Returns the values of one column as bytes, null where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_integer(values.type) or pa.types.is_timestamp(values.type):
        numbers = np.asarray(pc.fill_null(values.cast(pa.int64()), 0)).astype(">i8")
        # a null may become 0 here, as the byte before it tells whether there is a value
        return _fixed(numbers)
    return (values.cast(pa.string()) if isinstance(kind, DecimalType) else values).cast(pa.binary())


def _fixed(numbers: np.ndarray) -> pa.Array:
    """Returns the bytes of each number."""
    import pyarrow as pa

    kind = pa.binary(numbers.dtype.itemsize)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers.tobytes())]).cast(pa.binary())


def nulls_of(column: pa.Array) -> np.ndarray:
    """Returns which values of a column are null."""
    if column.null_count == 0:
        return np.zeros(len(column), bool)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
