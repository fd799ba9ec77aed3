"""Which files the gate's sample reads: all of the head, some of the clean part, and no offset by halves; no JVM."""

import random

from hardpack.compaction.gate_sample import _passed, _ranges, _runs
from hardpack.compaction.verify_sample import Settled, passed_over
from hardpack.rules.model import DataFile, LogState, LogView, to_segments
from hypothesis import given
from hypothesis import strategies as st

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), min_size=1, max_size=12)


def view(spans, checkpoint, late):
    files = [
        DataFile(f"{low}-{at}", 1, length + 1, low, low + length, 0, 0, 0, 0) for at, (low, length) in enumerate(spans)
    ]
    return LogView(0, to_segments(files), LogState(checkpoint=checkpoint, log_end=100), late=late)


def passed(log, removed, rows):
    """Ranges that are not read, and the paths of the files there."""
    runs = list(_runs(log))
    chosen = _passed(random.Random(3), runs, removed, rows)
    return _ranges(runs, chosen)["0"], {f.path for run in chosen for f in run.files}


@given(
    SPANS, st.integers(0, 80), st.one_of(st.none(), st.integers(0, 80)), st.integers(1, 40),
    st.sets(st.integers(0, 11)),
)  # fmt: skip
def test_files_are_read_or_passed_over_by_whole_ranges_of_offsets(spans, checkpoint, late, rows, hit):
    log = view(spans, checkpoint, late)
    removed = {file.path for at, file in enumerate(log.files) if at in hit}
    ranges, paths = passed(log, removed, rows)
    for file in log.files:
        inside = [low <= file.min_offset and file.max_offset <= high for low, high in ranges]
        apart = [file.max_offset < low or high < file.min_offset for low, high in ranges]
        assert any(inside) if file.path in paths else all(apart)
    assert not {f.path for f in log.files if f.max_offset >= min(checkpoint, 99 if late is None else late)} & paths
    # both of what the pass changed and of what it left alone
    assert all(sum(run.rows for run in some) >= rows for some in _halves(log, removed, paths) if some)


def _halves(log, removed, paths):
    """From the changed and from the other runs those that are read, where one of them is not."""
    for changed in (True, False):
        own = [r for r in _runs(log) if r.clean and any(f.path in removed for f in r.files) == changed]
        if any(f.path in paths for run in own for f in run.files):
            yield [run for run in own if run.files[0].path not in paths]


def test_the_clean_part_is_not_read_for_ever():
    log = view([(at, 9) for at in range(0, 1000, 10)], 900, None)
    log = LogView(0, log.segments, LogState(checkpoint=900, log_end=1000))
    removed = {f.path for f in log.files[10:40]}
    ranges, paths = passed(log, removed, 100)
    assert len(paths & removed) == 20
    assert len(paths - removed) == 50
    assert sum(high - low + 1 for low, high in ranges) == 700


def test_what_lies_between_files_that_are_passed_over_and_others_is_looked_at():
    log = LogView(0, view([(0, 3), (6, 3), (20, 3)], 50, None).segments, LogState(checkpoint=50, log_end=100))
    runs = list(_runs(log))
    assert _ranges(runs, runs[:2]) == {"0": [(0, 9)]}
    assert _ranges(runs, runs[2:]) == {"0": [(20, 23)]}


def test_the_check_of_a_run_passes_over_what_was_settled_before_its_pass():
    settled = {"0": Settled(below=900, read=7, made=9)}
    files = [
        DataFile(f"{at}", 1, 10, at, at + 9, 0, 0, 0, 0, came=8 if at == 100 else 9 if at % 20 else 7)
        for at in range(0, 1000, 10)
    ]
    log = LogView(0, to_segments(files), LogState(checkpoint=950, log_end=1000))
    unread = passed_over([log], settled, 100, "pass")
    # one came while the pass before was at work, and of the others a sample is read
    assert len(unread) == 90 - 1 - 10
    assert "100" not in unread
    assert all(int(path) < 900 for path in unread)
    assert passed_over([log], settled, 1000, "pass") == passed_over([log], {}, 100, "pass") == set()
    assert passed_over([log], settled, 100, "pass") == unread != passed_over([log], settled, 100, "another")
