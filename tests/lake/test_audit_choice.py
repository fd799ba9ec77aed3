"""Which files the gate's sample reads: all of the head, some of the clean part, and no offset by halves; no JVM."""

import random
from types import SimpleNamespace

from hardpack.audit import _looked
from hardpack.log.model import DataFile, LogState, LogView, to_segments
from hardpack.log.settings import Settings
from hypothesis import given
from hypothesis import strategies as st

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), min_size=1, max_size=12)


def view(spans, checkpoint, late):
    files = [
        DataFile(f"{low}-{at}", 1, length + 1, low, low + length, 0, 0, 0, 0) for at, (low, length) in enumerate(spans)
    ]
    return LogView(0, to_segments(files), LogState(checkpoint=checkpoint), late=late)


def looked(log, rows, **settings):
    job = SimpleNamespace(views=(log,), settings=Settings(audit_rows=rows, **settings))
    ranges, paths = _looked(random.Random(3), job)
    return ranges["0"], paths


@given(SPANS, st.integers(0, 80), st.one_of(st.none(), st.integers(0, 80)), st.integers(1, 40))
def test_files_are_read_by_whole_ranges_of_offsets(spans, checkpoint, late, rows):
    log = view(spans, checkpoint, late)
    ranges, paths = looked(log, rows)
    for file in log.files:
        inside = [low <= file.min_offset and file.max_offset <= high for low, high in ranges]
        apart = [file.max_offset < low or high < file.min_offset for low, high in ranges]
        assert any(inside) if file.path in paths else all(apart)
    head = {f.path for f in log.files if f.max_offset >= min(checkpoint, 99 if late is None else late)}
    assert head <= paths
    clean = [f.rows for f in log.files if f.path not in head]
    read = [f.rows for f in log.files if f.path not in head and f.path in paths]
    assert sum(read) >= min(rows, sum(clean))


def test_the_clean_part_is_not_read_for_ever():
    log = view([(at, 9) for at in range(0, 1000, 10)], 900, None)
    ranges, paths = looked(log, 100)
    assert len(paths) == 20
    assert sum(high - low + 1 for low, high in ranges) == 200


def test_with_transactions_every_file_is_read():
    log = view([(at, 9) for at in range(0, 1000, 10)], 900, None)
    columns = {"column_producer_id": "pid", "column_transactional": "tx", "column_control": "control"}
    ranges, paths = looked(log, 100, **columns)
    assert (ranges, len(paths)) == ([(0, 999)], 100)
