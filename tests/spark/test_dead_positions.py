"""The bitmaps that executors make of dead positions, which come in batches."""

import pyarrow as pa
import pytest
from hardpack.spark.causes.dead_positions import _bitmaps
from pyroaring import BitMap

ROWS = [("0", "f1", "superseded", n, 10 * n) for n in (5, 1, 3)] + [("0", "f1", "keyless", 2, 20)]
ROWS += [("1", "f2", "superseded", n, 100 - n) for n in range(4)] + [("0", "f3", "superseded", 0, 7)]


@pytest.mark.parametrize("size", range(1, 10))
def test_a_file_may_begin_in_one_batch_and_end_in_another(size):
    names = ["p", "file", "cause", "pos", "o"]
    batches = pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True))).to_batches(size)
    found = [row for batch in _bitmaps([*batches, batches[0].slice(0, 0)]) for row in batch.to_pylist()]
    assert [
        (r["partition"], r["file"], r["cause"], list(BitMap.deserialize(r["positions"])), r["last_offset"])
        for r in found
    ] == [
        ("0", "f1", "superseded", [1, 3, 5], 50), ("0", "f1", "keyless", [2], 20),
        ("1", "f2", "superseded", [0, 1, 2, 3], 100), ("0", "f3", "superseded", [0], 7),
    ]  # fmt: skip


def test_no_rows_are_no_bitmap():
    assert list(_bitmaps([])) == []
