"""What is begun ahead, and in which order it comes."""

import threading

import pytest
from hardpack.table.read_ahead import AHEAD_BYTES, AHEAD_FILES, FetchedIO, contents_ahead, files_ahead, one_ahead
from pyiceberg.io.pyarrow import PyArrowFileIO

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


def test_contents_come_in_order(tmp_path):
    files = [tmp_path / f"{n}" for n in range(20)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * 10)
    assert list(contents_ahead(PyArrowFileIO(), [(str(f), 10) for f in files])) == [bytes([n]) * 10 for n in range(20)]


def test_of_contents_that_are_gone_the_first_is_told(tmp_path):
    (tmp_path / "0").write_bytes(b"there")
    contents = contents_ahead(PyArrowFileIO(), [(f"{tmp_path}/{n}", 10) for n in range(20)])
    assert next(contents) == b"there"
    with pytest.raises(FileNotFoundError, match="/1"):
        next(contents)


def test_what_was_fetched_is_read_and_nothing_else():
    io = FetchedIO(b"content")
    file = io.new_input("s3://b/f")
    with file.open() as stream:
        assert (stream.read(), len(file), file.exists()) == (b"content", 7, True)
    for refused in (io.new_output, io.delete):
        with pytest.raises(NotImplementedError):
            refused("s3://b/f")
