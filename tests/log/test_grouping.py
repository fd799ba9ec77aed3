"""Which files become one: neighbours, up to segment.bytes."""

from hardpack.log.grouping import group_segments
from hardpack.log.model import to_segments

from tests.log.test_selection import data_file


def groups(hit, limit, files=None):
    files = files or [data_file(i * 10, i * 10 + 9, size=100) for i in range(5)]
    found = group_segments(to_segments(files), {f"f{i * 10}" for i in hit}, limit)
    return [[f.path for f in g] for g in found]


def test_neighbours_merge_up_to_segment_bytes():
    assert groups([0, 1, 2, 3, 4], 200) == [["f0", "f10"], ["f20", "f30"], ["f40"]]


def test_a_segment_left_alone_keeps_its_neighbours_apart():
    assert groups([0, 2, 3], 1000) == [["f0"], ["f20", "f30"]]


def test_a_segment_above_the_limit_is_a_group_of_its_own():
    assert groups([0, 1], 50) == [["f0"], ["f10"]]


def test_files_that_overlap_stay_together():
    files = [data_file(0, 15, path="f0"), data_file(10, 19), data_file(20, 29)]
    assert groups([0, 1, 2], 100, files) == [["f0", "f10"], ["f20"]]
