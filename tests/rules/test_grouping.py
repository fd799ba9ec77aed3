"""Which segments become one, and which files are rewritten together."""

from dataclasses import replace
from itertools import pairwise

from hardpack.rules.grouping import OFFSET_SPAN, files_to_rewrite, group_segments, in_packs
from hardpack.rules.model import to_segments
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.test_selection import data_file


def five():
    return to_segments([data_file(i * 10, i * 10 + 9, size=100) for i in range(5)])


def bases(groups):
    return [[s.base_offset for s in g] for g in groups]


def rewritten(hit, limit, segments=None, left=90, fixed=()):
    groups = group_segments(segments or five(), limit, 50)
    return [[f.path for f in run] for run in files_to_rewrite(groups, {f"f{i}": left for i in hit}, fixed)]


def test_neighbours_merge_up_to_segment_bytes():
    assert bases(group_segments(five(), 200, 50)) == [[0, 10], [20, 30], [40]]
    assert bases(group_segments(five(), 199, 50)) == [[0], [10], [20], [30], [40]]


def test_a_segment_above_the_limit_is_a_group_of_its_own():
    assert bases(group_segments(five(), 50, 50)) == [[0], [10], [20], [30], [40]]


def test_offsets_of_a_group_fit_into_four_bytes():
    far = to_segments([data_file(0, 9), data_file(100, 109)])
    assert bases(group_segments(far, 1000, OFFSET_SPAN + 1)) == [[0, 100]]
    assert bases(group_segments(far, 1000, OFFSET_SPAN + 2)) == [[0], [100]]
    assert bases(group_segments(far, 1000, 110, following=OFFSET_SPAN + 2)) == [[0], [100]]


def test_hit_files_of_a_group_go_together():
    assert rewritten([0, 10, 20, 30, 40], 200) == [["f0", "f10"], ["f20", "f30"], ["f40"]]


def test_a_file_left_alone_keeps_its_neighbours_apart():
    assert rewritten([0, 20, 30], 1000, left=40) == [["f0"], ["f20", "f30"]]


def test_so_it_does_inside_a_segment():
    merged = to_segments([data_file(i * 10, i * 10 + 9, size=100) for i in range(3)], (0, 30))
    assert len(merged) == 1
    assert rewritten([0, 20], 1000, merged) == [["f0"], ["f20"]]


def test_files_that_overlap_stay_together():
    files = to_segments([data_file(0, 15, path="f0"), data_file(10, 19), data_file(20, 29)])
    assert rewritten([0, 10, 20], 100, files) == [["f0", "f10"], ["f20"]]


def test_a_clean_file_joins_what_is_as_large():
    assert rewritten([0, 20, 30], 1000, left=100) == [["f0", "f10", "f20", "f30", "f40"]]
    assert rewritten([20], 1000, left=99) == [["f20"]]
    assert rewritten([20, 30], 1000, left=50) == [["f0", "f10", "f20", "f30", "f40"]]


def test_it_does_not_beyond_its_group():
    assert rewritten([0], 200, left=100) == [["f0", "f10"]]


def test_nothing_joins_files_of_which_nothing_is_left():
    assert rewritten([0, 20], 1000, left=0) == [["f0"], ["f20"]]


def test_what_must_stay_stays():
    assert rewritten([20], 1000, left=100, fixed=["f10"]) == [["f20", "f30", "f40"]]


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=12), st.integers(0, 9))
def test_runs_hold_all_hit_files_and_a_byte_moves_only_into_twice_its_file(drawn, tenth):
    files = [data_file(i * 10, i * 10 + 9, size=size) for i, (size, _) in enumerate(drawn)]
    living = {f.path: f.bytes * tenth // 10 for f, (_, hit) in zip(files, drawn, strict=True) if hit}
    runs = files_to_rewrite([to_segments(files)], living)
    found = [f.path for run in runs for f in run]
    assert len(found) == len(set(found))
    assert living.keys() <= set(found)
    order = [f.path for f in files]
    for run in runs:
        assert order.index(run[-1].path) - order.index(run[0].path) + 1 == len(run)
        size = sum(living.get(f.path, f.bytes) for f in run)
        assert all(2 * f.bytes <= size for f in run if f.path not in living)


def test_files_of_different_iceberg_partitions_never_become_one():
    """As in hours: a small file beside a hit one stays when it lies in another Iceberg partition."""
    files = [replace(data_file(i * 10, i * 10 + 9, size=100), iceberg_partition=home) for i, home in enumerate("aabba")]
    segments = to_segments(files)
    runs = files_to_rewrite([segments], {"f10": 100, "f20": 100, "f40": 100})
    assert [{file.iceberg_partition for file in run} for run in runs] == [{"a"}, {"b"}, {"a"}]
    assert [[file.path for file in run] for run in runs] == [["f0", "f10"], ["f20", "f30"], ["f40"]]


def test_packs_are_of_bounded_size_and_hold_one_at_least():
    sizes = {"a": 6, "b": 4, "c": 1, "d": 30, "e": 9}
    assert in_packs(sizes, sizes.__getitem__, 10) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert in_packs(sizes, sizes.__getitem__, 50, most_things=2) == [["a", "b"], ["c", "d"], ["e"]]
    assert in_packs([], len, 10) == []


@given(st.lists(st.integers(0, 20)), st.integers(0, 30), st.none() | st.integers(1, 4))
def test_packs_keep_the_order_and_are_full(sizes, most, most_things):
    packs = in_packs(sizes, int, most, most_things)
    assert [size for pack in packs for size in pack] == sizes
    assert all(sum(pack) <= most or len(pack) == 1 for pack in packs)
    assert all(len(pack) <= (most_things or len(sizes)) for pack in packs)
    for pack, following in pairwise(packs):
        assert sum(pack) + following[0] > most or len(pack) == most_things
