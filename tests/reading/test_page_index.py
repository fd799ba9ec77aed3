"""A few rows read by the page index are what the whole column has there, however the file was written; no JVM."""

import contextlib
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.files.compact_protocol import BINARY, I32, I64, LIST, STRUCT, Malformed, Reader, written
from hardpack.files.page_index import ColumnPages, CountedFile, Footer
from hypothesis import given
from hypothesis import strategies as st

ROWS = 5_000
WAYS = {
    "as pyarrow does, without an index": {},
    "as hardpack does": {"write_page_index": True, "max_rows_per_page": 300, "write_batch_size": 300},
    "version 2": {"write_page_index": True, "max_rows_per_page": 300, "data_page_version": "2.0"},
    "plain": {"write_page_index": True, "max_rows_per_page": 300, "use_dictionary": False},
    "by differences": {
        "write_page_index": True, "max_rows_per_page": 300, "use_dictionary": False,
        "column_encoding": {"offset": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"},
    },
    "a dictionary that gets full": {
        "write_page_index": True, "max_rows_per_page": 300, "dictionary_pagesize_limit": 5_000,
    },
    "checked pages": {"write_page_index": True, "max_rows_per_page": 300, "write_page_checksum": True},
    "gzip": {"write_page_index": True, "max_rows_per_page": 300, "compression": "gzip"},
    "not packed": {"write_page_index": True, "max_rows_per_page": 300, "compression": "none"},
}  # fmt: skip


def table():
    rng, begin = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(seconds=rng.randrange(10**6)) for _ in range(ROWS)]
    return pa.table(
        {
            "offset": pa.array(sorted(rng.sample(range(10**9), ROWS)), pa.int64()),
            "small": pa.array([rng.choice([None, rng.randrange(100)]) for _ in range(ROWS)], pa.int32()),
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "text": [rng.choice([None, "", "ä", "k" * rng.randrange(30)]) for _ in range(ROWS)],
            "deep": [
                rng.choice([None, {"offset": None}, {"offset": rng.randrange(10**6)}]) for _ in range(ROWS)
            ],
            "fixed": pa.array([rng.randbytes(16) for _ in range(ROWS)], pa.binary(16)),
        }
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_some_rows_are_those_of_the_whole_column(tmp_path, way):
    rows, path = table(), tmp_path / "f.parquet"
    pq.write_table(rows, path, row_group_size=2_000, **WAYS[way])
    rng, file = random.Random(2), CountedFile(path.open("rb"), path.stat().st_size)
    footer = Footer(file)
    footer.want(range(footer.arrow.num_columns))
    assert footer.arrow.num_rows == ROWS
    for column, name in enumerate(["offset", "small", "time", "text", "deep", "fixed"]):
        whole = rows[name].combine_chunks()
        whole = whole.flatten()[0] if name == "deep" else whole
        for group in range(3):
            pages, size = ColumnPages(file, footer, group, column), footer.rows(group)
            assert (pages.pages[0].first_row, pages.pages[-1].end_row) == (0, size)
            assert len(pages.pages) == 1 if not WAYS[way] else len(pages.pages) > 3
            for _ in range(20):
                first = rng.randrange(size)
                end = rng.randrange(first, size) + 1
                found = pages.values(file, first, end)
                wanted = whole.slice(group * 2_000 + first, end - first)
                kind = pa.binary() if name == "text" else found.type
                assert found.cast(kind).equals(wanted.cast(kind) if name != "time" else wanted.cast(pa.int64()))
            for page in pages.pages:
                own = whole.slice(group * 2_000 + page.first_row, page.end_row - page.first_row)
                if name == "offset" and WAYS[way]:
                    assert (page.low, page.high) == (own[0].as_py(), own[-1].as_py())


def test_few_bytes_are_read(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(table(), path, write_page_index=True, max_rows_per_page=300, use_dictionary=False)
    file = CountedFile(path.open("rb"), path.stat().st_size)
    footer = Footer(file)
    footer.want(range(footer.arrow.num_columns))
    before = file.given
    assert ColumnPages(file, footer, 0, 0).values(file, 4_000, 4_001)[0].as_py() == table()["offset"][4_000].as_py()
    assert file.given - before < 300 * 8 + 1_000, "a page and the index"


@pytest.mark.parametrize("length", [0, 3, 12, 900])
def test_what_is_no_parquet_file_is_an_error_of_the_file(tmp_path, length):
    path = tmp_path / "f.parquet"
    path.write_bytes(b"PAR1" + bytes(length))
    with pytest.raises(OSError, match="does not end as a Parquet file"):
        Footer(CountedFile(path.open("rb"), path.stat().st_size))


longs = st.integers(-(2**63), 2**63 - 1)


@given(longs, st.binary(max_size=300), st.lists(longs, max_size=40))
def test_what_is_written_is_read_again(number, text, some):
    inner = written((1, I64, number), (2, BINARY, text))
    whole = written((3, STRUCT, inner), (4, LIST, (I64, some)), (9, LIST, (STRUCT, [inner, inner])), (10, I32, 7))
    struct = {1: number, 2: text}
    assert Reader(whole).struct() == {3: struct, 4: some, 9: [struct, struct], 10: 7}


@given(st.binary(max_size=200))
def test_bytes_at_random_are_malformed_or_a_struct(data):
    with contextlib.suppress(Malformed):
        assert isinstance(Reader(data).struct(), dict)


def test_of_a_footer_only_the_wanted_columns_are_read(tmp_path, monkeypatch):
    """Statistics of hundreds of columns in hundreds of row groups took as long to read as the rows."""
    rows, path = table(), tmp_path / "f.parquet"
    pq.write_table(rows, path, row_group_size=1_000, **WAYS["as hardpack does"])
    file = CountedFile(path.open("rb"), path.stat().st_size)
    whole, some = Footer(file), Footer(file)
    whole.want(range(whole.arrow.num_columns))
    some.want([4])
    read, real = [], Reader.struct
    monkeypatch.setattr(Reader, "struct", lambda reader: (read.append(1), real(reader))[1])
    chunks = [some.chunk(group, 4) for group in range(5)]
    assert len(read) == 5
    assert chunks == [whole.chunk(group, 4) for group in range(5)]
    assert some.path(4) == whole.path(4)
