"""Which files the gate's sample reads: all of the head, some of the clean part, and no offset by halves; no JVM."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hardpack.compaction.choice import Choice
from hardpack.compaction.dead_rows import DeadRows
from hardpack.compaction.gate_sample import _passed, _ranges, key_sample, portion_sample, runs_of
from hardpack.compaction.verify_sample import Settled, passed_over
from hardpack.rules.model import DataFile, LogState, LogView, to_segments
from hypothesis import given
from hypothesis import strategies as st

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), min_size=1, max_size=12)


def view(spans, checkpoint, late):
    files = [
        DataFile(f"{low}-{at}", 1, length + 1, low, low + length, 0, 0, 0, 0) for at, (low, length) in enumerate(spans)
    ]
    return LogView(0, to_segments(files), LogState(checkpoint=checkpoint, log_end=100), unseen_from=late)


def passed(log, removed, rows, ended=True):
    """Ranges that are not read, and the paths of the files there."""
    runs = list(runs_of(log))
    chosen = _passed(random.Random(3), runs, removed, rows, ended)
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
        own = [r for r in runs_of(log) if r.clean and any(f.path in removed for f in r.files) == changed]
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
    runs = list(runs_of(log))
    assert _ranges(runs, runs[:2]) == {"0": [(0, 9)]}
    assert _ranges(runs, runs[2:]) == {"0": [(20, 23)]}


def settling(late=(), came=lambda at: 9 if at % 20 else 7, tombstones=lambda at: 0):
    """A log of 100 files of ten rows each, and what the pass before the last had settled of it."""
    files = [
        DataFile(
            f"{at}", 1, 10, at, at + 9, 0, 0, tombstones(at), 0, file_sequence_number=8 if at in late else came(at)
        )
        for at in range(0, 1000, 10)
    ]
    return LogView(0, to_segments(files), LogState(checkpoint=950, log_end=1000)), {"0": Settled(900, 7, (9,))}


def test_the_check_of_a_run_passes_over_what_was_settled_before_its_pass():
    log, settled = settling(late=range(900, 1000, 10))
    unread = passed_over([log], settled, {"0": ()}, 100, "pass")
    assert len(unread) == 90 - 10
    assert all(int(path) < 900 for path in unread)
    assert passed_over([log], settled, {"0": ()}, 1000, "pass") == set()
    assert passed_over([log], {}, {"0": ()}, 100, "pass") == set()
    again, other = (passed_over([log], settled, {"0": ()}, 100, seed) for seed in ("pass", "another"))
    assert again == unread != other


def test_from_what_came_late_on_all_is_read():
    log, settled = settling(late=[300, *range(900, 1000, 10)])
    unread = passed_over([log], settled, {"0": ()}, 50, "pass")
    assert len(unread) == 30 - 5
    assert all(int(path) < 300 for path in unread)


def test_where_tombstones_had_to_go_what_may_hold_some_is_read():
    log, settled = settling(late=range(900, 1000, 10), tombstones=lambda at: {100: 1, 110: None, 500: 1}.get(at, 0))
    unread = passed_over([log], settled, {"0": ((0, 200),)}, 10, "pass")
    assert len(unread) == 90 - 2 - 1
    assert not {"100", "110"} & unread


def commits_of_a_pass(of, audit_rows=10, leader_epoch=None):
    """The commits of a pass over 61 rows."""
    work: Any = SimpleNamespace(
        logs=[SimpleNamespace(view=view([(0, 60)], 0, None))],
        settings=SimpleNamespace(audit_rows=audit_rows),
        columns=SimpleNamespace(leader_epoch=leader_epoch),
        request=SimpleNamespace(plan="a plan"),
    )
    inputs: Any = SimpleNamespace(work=work)
    return [Choice(inputs, DeadRows({}, {}), {}, [], number, of) for number in range(1, of + 1)]


def test_the_last_commit_is_judged_by_all_keys_of_the_sample_and_earlier_ones_share_them():
    *early, last = commits_of_a_pass(3)
    whole = key_sample(last.work)
    assert portion_sample(last) == whole
    assert whole.whole_share == 7
    samples = [portion_sample(choice) for choice in early]
    assert [(one.whole_share, one.drawn_from) for one in samples] == [(21, whole)] * 2
    assert len({one.seed for one in (whole, *samples)}) == 3


@pytest.mark.parametrize("choice", [*commits_of_a_pass(2, 61), *commits_of_a_pass(1, leader_epoch="epoch")])
def test_where_all_rows_are_judged_each_commit_is_judged_by_all_keys(choice):
    assert portion_sample(choice) is None
