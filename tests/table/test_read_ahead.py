"""What is begun ahead, and in which order it comes."""

import threading

import pytest
from hardpack.table.read_ahead import AHEAD_BYTES, AHEAD_FILES, files_ahead, one_ahead

SMALL, LARGE = 1000, AHEAD_BYTES


def followed(sizes):
    """How many files were begun when each one's turn came."""
    begun, seen = [], []
    for number, reading in files_ahead(range(len(sizes)), lambda n: begun.append(n) or n, lambda n: sizes[n]):
        assert reading == number == len(seen)
        seen.append(len(begun))
    return seen


def test_the_next_large_file_is_begun_and_no_other():
    assert followed([LARGE] * 4) == [2, 3, 4, 4]


def test_small_files_are_begun_by_the_handful():
    assert followed([SMALL] * 20)[:3] == [AHEAD_FILES + 1, AHEAD_FILES + 2, AHEAD_FILES + 3]


def test_a_large_file_behind_small_ones_holds_the_others_back():
    assert followed([SMALL, SMALL, LARGE, SMALL, SMALL]) == [3, 3, 4, 5, 5]


@pytest.mark.parametrize("sizes", [[], [SMALL], [LARGE], [0, 0]])
def test_every_file_comes_once(sizes):
    assert len(followed(sizes)) == len(sizes)


def test_reading_begins_before_anybody_asks():
    begun = threading.Event()

    def batches():
        begun.set()
        yield 1

    reading = one_ahead(batches())
    assert begun.wait(10)
    assert list(reading) == [1]


def test_the_next_batch_is_read_while_one_is_worked_on():
    second = threading.Event()

    def batches():
        yield 1
        second.set()
        yield 2

    reading = one_ahead(batches())
    assert next(reading) == 1
    assert second.wait(10)
    assert list(reading) == [2]


def test_what_went_wrong_ahead_is_told_when_its_turn_comes():
    def batches(number):
        yield number
        if number == 1:
            raise OSError("gone")

    reads = files_ahead(range(3), lambda n: one_ahead(batches(n)), lambda _: SMALL)
    assert list(next(reads)[1]) == [0]
    _, bad = next(reads)
    assert next(bad) == 1
    with pytest.raises(OSError, match="gone"):
        next(bad)


def test_whoever_stops_leaves_no_thread_behind():
    before = threading.active_count()
    for _, reading in files_ahead(range(20), lambda n: one_ahead(iter([n, n])), lambda _: SMALL):
        assert next(reading) == 0
        break
    del reading
    assert threading.active_count() <= before
