"""What hardpack's files say of their order, how their offsets are encoded, and that a lie is noticed; no JVM."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.demo.topic import COLUMNS
from hardpack.errors import BadInput
from hardpack.files.content_file import listed_file
from hardpack.files.data_files import DataFiles
from hardpack.files.writer import RISING, write_files
from hardpack.table.columns import settings_of

from tests.layouts import as_manifest_has_it
from tests.reading.records import open_reader
from tests.topics import T0, new_topic


def batch(offsets):
    rows = [{"partition": 0, "offset": o, "timestamp": T0 * 1000, "key": b"k", "value": "v"} for o in offsets]
    types = pa.schema([f.with_type(pa.int64()) if f.name == "timestamp" else f for f in COLUMNS])
    return pa.Table.from_pylist(rows, types).cast(COLUMNS).combine_chunks().to_batches()[0]


def written(table, *batches, target=10**9):
    like = listed_file("", "parquet", 0, (0,), 0, 0)
    return write_files(DataFiles.of(table, settings=settings_of(table)), map(batch, batches), like, target)


def parquet(file):
    return pq.ParquetFile(file.path.removeprefix("file://"))


@pytest.mark.parametrize(
    ("batches", "rising"),
    [
        ([[0, 1, 5], [6, 7]], True),
        ([[0, 1, 1], [1, 2]], True),
        ([[0, 5, 1], [6, 7]], False),
        ([[0, 1, 5], [4, 7]], False),
        ([[9]], True),
    ],
)
def test_a_file_says_that_its_rows_are_by_offset_when_they_are(catalog, batches, rising):
    (file,) = written(new_topic(catalog), *batches)
    assert (RISING.encode() in parquet(file).metadata.metadata) == rising


def test_each_file_speaks_for_itself(catalog):
    files = written(new_topic(catalog), range(5000, 0, -1), range(6000, 11_000), target=1)
    said = [RISING.encode() in parquet(file).metadata.metadata for file in files]
    assert (said[0], said[-1]) == (False, True)


def test_offsets_and_timestamps_have_no_dictionary(catalog):
    (file,) = written(new_topic(catalog), range(1000))
    group = parquet(file).metadata.row_group(0)
    coded = {group.column(at).path_in_schema: group.column(at).has_dictionary_page for at in range(group.num_columns)}
    assert coded == {"partition": True, "offset": False, "timestamp": False, "key": True, "value": True}


@pytest.mark.parametrize("lie", [[0, 5, 3], [7, 6]])
def test_a_file_that_says_what_is_not_so_is_refused(catalog, lie, monkeypatch):
    monkeypatch.setattr("hardpack.files.writer._Writing._follow", lambda *_: None)
    table = new_topic(catalog)
    (file,) = written(table, lie)
    assert RISING.encode() in parquet(file).metadata.metadata
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(as_manifest_has_it(file))
    with pytest.raises(BadInput, match="says that its rows are by offset, and they are not"):
        list(open_reader(table.refresh(), None).read())


def test_rows_of_a_file_that_speaks_are_cut_where_they_are_asked_for(catalog):
    table = new_topic(catalog)
    (file,) = written(table, range(0, 3000, 3))
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(as_manifest_has_it(file))
    reader = open_reader(table.refresh(), None)
    for start, end in [(0, 3000), (1, 2), (3, 4), (500, 2000), (2997, 9999), (2998, 9999)]:
        found = [o for b in reader.read(start=start, end=end) for o in b["offset"].to_pylist()]
        assert found == [o for o in range(0, 3000, 3) if start <= o < end]
