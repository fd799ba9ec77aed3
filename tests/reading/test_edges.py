"""Tables at the edges of what a reader meets: offsets that stand twice, rows of no log, odd files; no JVM."""

import os
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.errors import BadInput
from hardpack.files.page_index import ColumnPages, CountedFile, Footer
from hardpack.reading import reader
from hardpack.rules.model import LogState, SeenCommits, SnapshotRef
from hardpack.table.state import STATE_PROPERTY, write_state
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tests.reading.records import open_reader
from tests.reading.tables import arrow, filled, read, schema, table_of
from tests.topics import T0, append, name_of, new_topic, row

EPOCHS = {"column.leader.epoch": "epoch"}
TRANSACTIONS = {"column.producer.id": "pid", "column.transactional": "tx", "column.control": "ctl"}


def add(table, pieces, bounds, values=(), **options):
    """A file of these row groups, with the bounds of offset and timestamp that a manifest would have."""
    path = f"{table.location().removeprefix('file://')}/data/{uuid.uuid4()}.parquet"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with pq.ParquetWriter(path, pieces[0].schema, **options) as writer:
        for piece in pieces:
            writer.write_table(piece)
    lows, highs = (
        {table.schema().find_field(n).field_id: to_bytes(table.schema().find_field(n).field_type, b[at])
         for n, b in bounds.items()}
        for at in (0, 1)
    )  # fmt: skip
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"file://{path}", file_format=FileFormat.PARQUET,
        partition=Record(*values), record_count=sum(map(len, pieces)), file_size_in_bytes=os.path.getsize(path),
        split_offsets=None, equality_ids=None, sort_order_id=None, column_sizes={}, value_counts={},
        null_value_counts=dict.fromkeys(lows, 0), nan_value_counts={}, lower_bounds=lows, upper_bounds=highs,
    )  # fmt: skip
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(file)
    return table.refresh()


def test_a_key_is_looked_for_among_the_rows_that_stand(catalog):
    table = filled(
        catalog, [{"offset": 0}, {"offset": 5, "value": "cut off"}], [{"offset": 5, "key": "b", "epoch": 2}], **EPOCHS
    )
    assert read(table, key=b"a") == [(0, "v")]
    assert read(table, key="b") == [(5, "v")]


def test_a_key_does_not_hide_that_rows_differ(catalog):
    table = filled(catalog, [{"offset": 0}, {"offset": 5}], [{"offset": 5, "key": "b"}])
    with pytest.raises(BadInput, match="at offset 5 differ"):
        read(table, key=b"a")


@pytest.mark.parametrize("lost", [{"tx": True}, {"ctl": "abort"}])
def test_a_row_that_was_cut_off_decides_no_transaction(catalog, lost):
    ends = [{"offset": 6, "pid": 7, "ctl": "commit", "epoch": 2}, {"offset": 7, "epoch": 2}]
    table = filled(
        catalog,
        [{"offset": 0, "pid": 7, "tx": True}, {"offset": 5, "pid": 9 if "tx" in lost else 7, **lost}],
        [{"offset": 5, "pid": 7, "tx": True, "epoch": 2, "value": "w"}, *ends],
        **EPOCHS | TRANSACTIONS,
    )
    assert read(table) == [(0, "v"), (5, "w"), (7, "v")]


def test_of_equal_rows_the_one_of_the_first_file_stands(catalog):
    rows = [{"offset": 3, "ctl": "one"}, {"offset": 5, "ctl": "one"}], [{"offset": 5, "ctl": "two"}]
    table = filled(catalog, *rows, duplicates_ignore="ctl")
    paths = {task.file.record_count: task.file.file_path for task in table.scan().plan_files()}
    first = "one" if paths[2] < paths[1] else "two"
    assert read(table, of=("offset", "ctl")) == [(3, "one"), (5, first)]


def test_a_log_asked_for_twice_is_read_once(catalog):
    table = filled(catalog, [{"offset": 0}, {"offset": 1}])
    for what in ([0, "0", 0], 0, "0"):
        assert read(table, what, of=("offset",)) == [(0,), (1,)]
    assert read(table, columns=["offset", "offset", "value"]) == [(0, "v"), (1, "v")]


def test_an_isolation_level_that_is_none_is_refused(catalog):
    table = filled(catalog, [{"offset": 0}])
    with pytest.raises(BadInput, match="'read_commited', expected read_committed or read_uncommitted"):
        read(table, isolation_level="read_commited")


TEXT = {"partition": StringType()}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"partition": None, "offset": 1}, "partition null cannot be read in order: rows have no 'partition'"),
        ({"partition": "b", "offset": None}, "partition b cannot be read in order: rows have no 'offset'"),
        ({"partition": "b", "offset": -5}, "partition b cannot be read in order: a row has 'offset' -5"),
    ],
)
def test_in_a_shared_file_rows_of_no_place_are_told_and_others_read(catalog, bad, sentence):
    table = filled(catalog, [bad, {"partition": "a", "offset": 2}], kinds=TEXT)
    assert read(table, ["a"]) == [(2, "v")]
    assert open_reader(table, None).seek("a", 0).offset == 2
    with pytest.raises(BadInput, match=sentence):
        read(table, [str(bad["partition"] or "null")])


def test_a_log_may_be_called_null(catalog):
    table = filled(catalog, [{"partition": "null", "offset": 1}, {"partition": "a", "offset": 2}], kinds=TEXT)
    assert read(table, ["null"]) == [(1, "v")]
    assert open_reader(table, None).seek("null", 0).offset == 1


def test_a_reader_of_some_logs_has_no_others(catalog):
    table = filled(catalog, [{"offset": 0}, {"offset": 1, "partition": 1}], [{"offset": 5, "partition": 1}])
    reader = open_reader(table, None, ["0"])
    assert (reader.partitions, reader.end_offsets()) == (["0"], {"0": 1})
    with pytest.raises(BadInput, match="there is no partition 1, it has 1, 0"):
        list(reader.read(["1"]))


def test_a_partition_value_that_the_file_lacks_is_known(catalog):
    found = Schema(NestedField(20, "topic", StringType()), *schema().fields)
    spec = PartitionSpec(PartitionField(20, 1000, IdentityTransform(), "topic"))
    table = table_of(catalog, found, spec, column_partition="topic,partition")
    rows = arrow(Schema(*table.schema().fields[1:]), {"offset": 1}, {"offset": 2, "partition": 1})
    bounds = {"offset": (1, 2), "timestamp": (T0, T0), "partition": (0, 1)}
    table = add(table, [rows], bounds, ("pay",))
    reader = open_reader(table, None)
    assert reader.partitions == ["pay-0", "pay-1"]
    assert read(table, ["pay-1"]) == [(2, "v")]
    assert (reader.seek("pay-1", 0).offset, reader.offset_for_time("pay-1", T0).offset) == (2, 2)


@pytest.mark.parametrize("index", [False, True])
def test_an_empty_row_group_is_passed_over(catalog, index):
    table = table_of(catalog, schema())
    full = arrow(schema(), *({"offset": at, "timestamp": T0 + at} for at in range(9)))
    pieces = [full.slice(0, 5), full.slice(0, 0), full.slice(5)]
    table = add(
        table, pieces, {"partition": (0, 0), "offset": (0, 8), "timestamp": (T0, T0 + 8)}, write_page_index=index
    )
    reader = open_reader(table, None)
    assert [reader.seek(0, at).offset for at in range(9)] == list(range(9))
    assert [reader.offset_for_time(0, T0 + at).offset for at in range(9)] == list(range(9))
    assert len(read(table)) == 9


def test_times_of_96_bits_outside_the_years_of_nanoseconds(catalog):
    found = schema(timestamp=TimestampType())
    times = [datetime(1975, 1, 1), datetime(2020, 1, 1), datetime(2500, 1, 1)]
    rows = arrow(found, *({"offset": at, "timestamp": time} for at, time in enumerate(times)))
    millis = [round((time - datetime(1970, 1, 1)).total_seconds() * 1000) for time in times]
    bounds = {"partition": (0, 0), "offset": (0, 2), "timestamp": (millis[0] * 1000, millis[2] * 1000)}
    table = add(table_of(catalog, found), [rows], bounds, use_deprecated_int96_timestamps=True)
    reader = open_reader(table, None)
    assert [reader.seek(0, at).timestamp for at in range(3)] == millis
    assert [reader.offset_for_time(0, at).offset for at in millis] == [0, 1, 2]


def test_a_row_without_a_time_is_of_no_time(catalog):
    table = filled(catalog, [{"offset": 0, "timestamp": None}, {"offset": 1}])
    assert open_reader(table, None).offset_for_time(0, -5000).offset == 1


def test_a_key_of_times_is_found_in_a_file_without_zones(catalog):
    found, at = schema(key=TimestamptzType()), datetime(2026, 1, 31)
    naive = arrow(schema(key=TimestampType()), {"offset": 0, "key": at})
    bounds = {"partition": (0, 0), "offset": (0, 0), "timestamp": (T0, T0)}
    table = add(table_of(catalog, found), [naive], bounds)
    assert read(table, key=b'"2026-01-31T00:00:00+00:00"') == [(0, "v")]


@pytest.mark.parametrize("given", ['"1.50"', '"1.5"', "1.5", '"15e-1"'])
def test_a_key_that_is_a_number_with_a_point(catalog, given):
    table = filled(catalog, [{"offset": 0, "key": Decimal("1.50")}], kinds={"key": DecimalType(10, 2)})
    assert read(table, key=given) == [(0, "v")]


@pytest.mark.parametrize("given", ["1.505", "true", '"x"', "123456789.00", "[1]", '"NaN"'])
def test_what_is_no_such_number_is_refused(catalog, given):
    table = filled(catalog, [{"offset": 0, "key": Decimal("1.50")}], kinds={"key": DecimalType(10, 2)})
    with pytest.raises(BadInput, match=r"has no decimal\(10, 2\) for 'key'; give numbers as JSON numbers"):
        read(table, key=given)


@pytest.mark.parametrize(("kind", "key"), [(IntegerType(), -(2**31)), (LongType(), -(2**63)), (LongType(), 2**63 - 1)])
def test_the_least_and_the_greatest_number_are_keys(catalog, kind, key):
    table = filled(catalog, [{"offset": 0, "key": key}], kinds={"key": kind})
    assert read(table, key=str(key)) == [(0, "v")]
    with pytest.raises(BadInput, match=f"has no {kind} for 'key'"):
        read(table, key=str(key - 1 if key < 0 else key + 1))


def test_a_key_of_times_may_end_with_the_letter_of_utc(catalog):
    table = filled(catalog, [{"offset": 0, "key": datetime(2026, 1, 31, tzinfo=UTC)}], kinds={"key": TimestamptzType()})
    assert read(table, key='"2026-01-31T00:00:00Z"') == [(0, "v")]


@pytest.mark.parametrize("shared", [False, True])
def test_a_late_row_of_an_open_transaction_bounds_what_committed_readers_see(catalog, shared):
    """A pass had covered its offset; the bootstrap goes on in Kafka where its rows end."""
    spec = PartitionSpec() if shared else PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))
    table = filled(catalog, [{"offset": n, "key": f"k{n}"} for n in (0, 1, 2, 8, 9)], [{"offset": 10}], spec=spec,
                   **TRANSACTIONS)  # fmt: skip
    made = table.current_snapshot()
    at = SnapshotRef(made.snapshot_id, made.sequence_number)
    seen = SeenCommits(at.sequence_number, at.sequence_number)
    state = LogState(checkpoint=10, log_end=11, snapshot=at, seen=seen)
    with table.transaction() as change:
        change.set_properties({STATE_PROPERTY: write_state({"0": state})})
    late = [{"offset": 5, "pid": 7, "tx": True}, *([{"offset": 0, "partition": 1}] if shared else [])]
    table.append(arrow(table.schema(), *late))
    assert read(table.refresh(), 0, of=("offset",)) == [(0,), (1,), (2,)]
    assert read(table, 0, start=6, of=("offset",)) == []
    found = open_reader(table, None).bootstrap([0])
    assert found.offsets == {"0": 5}
    assert [o for batch in found.rows for o in batch["offset"].to_pylist()] == [0, 1, 2]


def test_any_number_of_producers_is_told_apart(catalog):
    rows = [row for n in range(50) for row in ({"offset": 2 * n, "pid": n % 17, "tx": True},
            {"offset": 2 * n + 1, "pid": n % 17, "ctl": "abort" if n % 3 else "commit"})]  # fmt: skip
    assert read(filled(catalog, rows, **TRANSACTIONS), of=("offset",)) == [(2 * n,) for n in range(0, 50, 3)]


def test_one_partition_or_column_may_be_given_as_it_is(catalog, cold):
    table = filled(catalog, [{"offset": 0, "partition": 10}], spec=PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "partition")))  # fmt: skip
    name = ".".join(table.name())
    for given in (10, "10", [10], ["10"]):
        assert [batch["offset"].to_pylist() for batch in cold.read(name, given, columns="offset")] == [[0]]
        assert cold.bootstrap(name, given).offsets == {"10": 1}


def test_only_the_columns_asked_for_are_read(catalog, monkeypatch):
    asked = []
    real = reader.runs

    def runs(index, file, projected, *rest):
        asked.append({field.name for field in projected.fields})
        return real(index, file, projected, *rest)

    monkeypatch.setattr(reader, "runs", runs)
    table = filled(catalog, [{"offset": 0}, {"offset": 1}])
    assert read(table, columns=["value"], of=("value",)) == [("v",), ("v",)]
    assert read(table, columns=["value"], of=("value",), by_time=True) == [("v",), ("v",)]
    assert asked == [{"offset", "value"}, {"offset", "timestamp", "value"}]


@pytest.mark.parametrize("kind", [StringType(), BinaryType(), LongType(), TimestamptzType()])
def test_files_whose_bounds_leave_a_key_out_are_not_opened(catalog, kind):
    values = {"string": ["a" * 30, "m" * 30, "z" * 30], "binary": [b"a" * 30, b"m" * 30, b"z" * 30], "long": [1, 5, 9]}
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 15, 31)]
    keys = values.get(str(kind), times)
    table = filled(catalog, *([{"offset": at, "key": key}] for at, key in enumerate(keys)), kinds={"key": kind})
    given = keys[1].isoformat() if isinstance(keys[1], datetime) else keys[1]
    asked = given if isinstance(given, bytes) else str(given).encode() if isinstance(given, int) else given.encode()
    asked = b'"' + asked + b'"' if isinstance(keys[1], datetime) else asked
    reader = open_reader(table, None)
    found = [o for batch in reader.read(key=asked) for o in batch["offset"].to_pylist()]
    assert found == [1]
    assert len(reader._index._known) == (3 if isinstance(keys[1], datetime) else 1)


def test_a_damaged_page_index_is_an_error_of_the_file(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"o": range(1000)}), path, write_page_index=True, max_rows_per_page=100)
    whole = path.read_bytes()
    healthy = CountedFile(path.open("rb"), len(whole))
    footer = Footer(healthy)
    footer.want([0])
    chunk = footer.chunk(0, 0)
    wrong = 0
    for place in range(chunk[4], chunk[4] + chunk[5]):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x21]) + whole[place + 1 :])
        file = CountedFile(path.open("rb"), len(whole))
        try:
            pages = ColumnPages(file, footer, 0, 0)
            for page in pages.pages:
                found = pages.values(file, page.first_row, page.end_row).to_pylist()
                wrong += found != list(range(page.first_row, page.end_row))
        except (OSError, pa.ArrowException):
            continue
    assert wrong == 0


def test_a_footer_is_read_once_for_all_row_groups(catalog, monkeypatch):
    """Else a file of thousands of row groups is read for minutes."""
    found = schema()
    pieces = [arrow(found, *({"offset": 3 * group + at} for at in range(3))) for group in range(20)]
    table = add(table_of(catalog, found), pieces, {"partition": (0, 0), "offset": (0, 59), "timestamp": (T0, T0)})
    parsed, real = [], pq.ParquetFile

    def opened(stream, metadata=None, **options):
        parsed.append(metadata is None)
        return real(stream, metadata=metadata, **options)

    monkeypatch.setattr(pq, "ParquetFile", opened)
    assert read(table, of=("offset",)) == [(at,) for at in range(60)]
    assert len(parsed) == 40, "offsets, then rows, of each row group"
    assert not any(parsed)


def twice_beyond_the_calendar(catalog, times, **cells):
    """One offset in two files, at times that Python has no date for."""
    kinds = {"timestamp": TimestampType(), "value": DoubleType() if "value" in cells else StringType()}
    found = schema(**kinds)
    table = table_of(catalog, found)
    for time in times:
        rows = arrow(found, {"offset": 5, "timestamp": None, **cells})
        column = pa.array([time], pa.int64()).cast(rows.schema.field("timestamp").type)
        rows = rows.set_column(2, rows.schema.field("timestamp"), column)
        table = add(table, [rows], {"partition": (0, 0), "offset": (5, 5), "timestamp": (time, time)})
    return table


def test_rows_that_differ_in_what_python_has_no_word_for_are_refused(catalog):
    table = twice_beyond_the_calendar(catalog, [2**62, 2**62 + 1])
    with pytest.raises(BadInput, match="at offset 5 differ"):
        list(open_reader(table, None).read())


def test_rows_with_a_number_that_is_none_are_equal_beside_such_a_time(catalog):
    table = twice_beyond_the_calendar(catalog, [2**62, 2**62], value=float("nan"))
    assert sum(map(len, open_reader(table, None).read())) == 1


def test_partitions_may_be_given_by_an_iterator(catalog, cold):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")], 1: [row(3, "b")]})
    assert [len(batch) for batch in cold.read(name_of(table), iter(["1"]))] == [1]
    assert cold.bootstrap(name_of(table), iter(["1"])).offsets == {"1": 4}


def test_a_file_that_names_no_column_is_a_sentence_for_seeking_too(catalog):
    """Rows are there, so that nothing found would be a wrong answer."""
    table = filled(catalog)
    piece = arrow(table.schema(), {"offset": 0}, {"offset": 1})
    bare = pa.schema([field.remove_metadata() for field in piece.schema])
    add(table, [piece.cast(bare)], {"partition": (0, 0), "offset": (0, 1), "timestamp": (T0, T0)})
    index = open_reader(table.refresh(), None)
    for ask in (lambda: index.seek(0, 0), lambda: index.offset_for_time(0, T0)):
        with pytest.raises(BadInput, match="has none of the table's columns by field id"):
            ask()
