"""What a pass holds in memory, measured: bounded by settings and by the size of its parts, not by that of the table."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.key_hash import HeadKeys
from hardpack.rules.settings import BYTES_PER_KEY
from hardpack.spark.causes import superseded as narrow
from hardpack.spark.rewrite import RewriteInput, _rewrite

from tests.topics import append, columns_of, name_of, new_topic, row, rows_of


def held(make):
    """Bytes that stay allocated by what is made, and the most there were while it was."""
    tracemalloc.start()
    try:
        kept = make()
        now, peak = tracemalloc.get_traced_memory()
        assert kept is not None
        return now, peak
    finally:
        tracemalloc.stop()


# what finds a key is a power of two in size: just above one it is twice as large as it must be
@pytest.mark.parametrize(("count", "most"), [(500_000, 48), (2**20 + 1, 64), (narrow.FEW_KEYS, 36)])
def test_a_task_holds_so_many_bytes_of_each_key_of_a_head(count, most):
    rng = np.random.default_rng(1)
    high, low = (rng.integers(0, 2**64, count, np.uint64) for _ in range(2))

    def make():
        keys = HeadKeys(high.copy(), low.copy(), np.zeros(count, bool))
        return keys.table, keys.wanted, keys

    kept, _ = held(make)
    assert 17 * count < kept < most * count


@pytest.mark.spark
def test_of_a_head_no_more_keys_are_held_than_its_map_has_room_for(hp, catalog, monkeypatch):
    counts, real = [], HeadKeys.merged.__func__
    monkeypatch.setattr(
        narrow.HeadKeys,
        "merged",
        classmethod(lambda cls, blobs: (keys := real(cls, blobs), counts.append(len(keys.high)))[0]),
    )
    room = {"log_cleaner_dedupe_buffer_size": 600 * BYTES_PER_KEY, "log_cleaner_io_buffer_load_factor": 1.0}
    for limits, most in (({}, 2000), (room, 600)):
        table = new_topic(catalog, min_cleanable_dirty_ratio=0, active_segment="none", **limits)
        append(table, {0: [row(n, f"k{n}") for n in range(10)]})
        hp.clean(hp.plan(name_of(table)))
        for start in range(10, 2010, 500):
            append(table, {0: [row(n, f"k{n - 10}") for n in range(start, start + 500)]})
        counts.clear()
        hp.clean(hp.plan(name_of(table)))
        assert counts == [most]
        assert len(rows_of(table.refresh())) == 2000


def test_a_file_four_times_as_large_takes_no_more_to_rewrite(catalog):
    peaks = []
    for rows in (3_000_000, 12_000_000):
        table = new_topic(catalog)
        numbers = pa.array(np.arange(rows))
        columns = {
            "partition": pa.array(np.zeros(rows, np.int32)), "offset": numbers,
            "timestamp": numbers.cast(pa.timestamp("us", "UTC")), "key": numbers.cast(pa.string()).cast(pa.binary()),
        }  # fmt: skip
        names = [field.name for field in table.schema().fields]
        schema = table.schema().as_arrow()
        arrays = [columns.get(n, pa.nulls(rows, schema.field(n).type)).cast(schema.field(n).type) for n in names]
        table.append(pa.table(arrays, schema=schema))
        (file,) = [task.file for task in table.scan().plan_files()]
        del columns, arrays, numbers
        entry = {
            "file-path": file.file_path, "record-count": file.record_count, "spec-id": file.spec_id,
            "file-size-in-bytes": file.file_size_in_bytes, "partition": list(file.partition), "file-format": "PARQUET",
        }  # fmt: skip
        usual = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(usual)
        pa.set_memory_pool(pool)
        try:
            made = _rewrite(
                DataFiles.of(table),
                [RewriteInput(ContentFile(entry), b"")],
                columns_of(table, "offset")[0],
                4 * 1024 * 1024,
            )
        finally:
            pa.set_memory_pool(usual)
        assert sum(new.rows for new in made) == rows
        peaks.append(pool.max_memory())
    assert peaks[1] < 1.3 * peaks[0], peaks
