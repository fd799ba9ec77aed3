"""A file of several logs becomes files of one, whatever a task can hold; no JVM."""

from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack import BadInput
from hardpack.files.content_file import listed_file
from hardpack.files.data_files import DataFiles
from hardpack.rules.reference.cleaner import Row
from hardpack.rules.times import LONG_MAX
from hardpack.spark import split
from hardpack.spark.rewrite import by_offset
from hardpack.table.columns import LogColumns
from hardpack.table.log_name import value_by_bounds
from hardpack.table.schema_columns import LogColumn
from pyiceberg.types import LongType, StringType

from tests.layouts import MIXED, PLAIN, mapped, written
from tests.topics import T0

_names = count()
OFFSET = LogColumn(2, LongType(), ("offset",))


def one_file(catalog, layout, logs):
    """Files of the table, its columns, and one file with these rows by turns: log -> offsets."""
    table = layout.create(catalog, f"sf.t{next(_names)}")
    most = max(map(len, logs.values()))
    cells = [
        layout.cells(log, Row(offsets[n], b"k%d" % offsets[n], b"v" * 50, timestamp=T0))
        for n in range(most)
        for log, offsets in logs.items()
        if n < len(offsets)
    ]
    (file,) = written(table, [((), cells)])
    return DataFiles.of(table, settings=mapped(layout)), LogColumns.of(table.schema(), mapped(layout)), file


def taken_apart(files, columns, file, target=2**30):
    like = listed_file(file.path, "parquet", file.spec_id, (), file.bytes, file.rows)
    return split.split_file(files, lambda: files.read_whole(file), like, columns, target)


@pytest.mark.parametrize("held", [1, 2000, 2**30])
def test_every_row_is_in_a_file_of_its_log_by_rising_offset(catalog, monkeypatch, held):
    monkeypatch.setattr("hardpack.spark.split.HELD_BYTES", held)
    monkeypatch.setattr("hardpack.spark.rewrite.SORT_BYTES", held)
    logs = {5: [9, 3, 7], 0: [*range(40, 0, -1)], 2: [1]}
    files, columns, file = one_file(catalog, MIXED, logs)
    new = taken_apart(files, columns, file)
    found = {}
    for one in new:
        metadata = pq.read_table(one.path.removeprefix("file://"))["_kafka_metadata"].to_pylist()
        (log,) = {row["partition"] for row in metadata}
        assert columns.log.of([value_by_bounds(c, one.column_metrics(c.field_id)) for c in columns.log.columns]) == log
        found.setdefault(log, []).extend(row["offset"] for row in metadata)
    assert found == {log: sorted(offsets) for log, offsets in logs.items()}


def test_a_name_that_bounds_do_not_tell_is_refused_before_anything_is_written(catalog):
    layout = type(PLAIN)("long names", types={"partition": StringType()})
    files, columns, file = one_file(catalog, layout, {"a" * 64: [0], "b": [1]})
    with pytest.raises(BadInput, match="has 64 characters, and a file's metadata tells no more than 63"):
        taken_apart(files, columns, file)


@pytest.mark.parametrize("held", [1, 40, 2**30])
def test_rows_of_the_last_offset_there_can_be_and_of_none_are_no_less_there(monkeypatch, held):
    """They are their own log's trouble, and must keep nobody from taking a file of several apart."""
    monkeypatch.setattr("hardpack.spark.rewrite.SORT_BYTES", held)
    given = [[5, None, LONG_MAX, 1], [LONG_MAX, 0, None, 5]]
    batches = [pa.record_batch({"offset": pa.array(offsets, pa.int64())}) for offsets in given]
    ordered = [row for batch in by_offset(lambda: iter(batches), OFFSET) for row in batch["offset"].to_pylist()]
    assert ordered[:4] == [0, 1, 5, 5]
    assert sorted(ordered[4:], key=str) == [LONG_MAX, LONG_MAX, None, None]
