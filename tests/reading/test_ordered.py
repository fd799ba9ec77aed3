"""Runs merge to what sorting all of their rows gives, in little memory."""

import itertools

import numpy as np
import pyarrow as pa
from hardpack.reading.ordered import SortedRun, in_order, merged
from hypothesis import given, settings
from hypothesis import strategies as st

batches = st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=5)


def run(found, number, opened):
    """A run of these batches, made rising; each row tells where it came from."""
    keys = iter(sorted(key for batch in found for key in batch))

    def rows():
        opened.append(number)
        for batch in found:
            own = [next(keys) for _ in batch]
            names = pa.array([f"{number} {key}" for key in own], pa.string())
            yield np.array(own, np.int64), pa.record_batch([names], ["of"])

    first = min((key for batch in found for key in batch), default=0)
    return SortedRun(first, rows)


@settings(max_examples=300, deadline=None)
@given(st.lists(batches, max_size=5))
def test_merged_is_sorted(runs):
    opened: list[int] = []
    got = list(merged(run(found, number, opened) for number, found in enumerate(runs)))
    every = sorted((key, number) for number, found in enumerate(runs) for batch in found for key in batch)
    keys = [int(key) for own, _ in got for key in own]
    assert keys == [key for key, _ in every]
    assert sorted(name for _, batch in got for name in batch["of"].to_pylist()) == sorted(f"{n} {k}" for k, n in every)
    for (one, _), (other, _) in itertools.pairwise(got):
        assert one[-1] < other[0], "rows of one place come together"


@settings(max_examples=100, deadline=None)
@given(st.lists(batches, max_size=5))
def test_rows_of_one_place_need_not_come_together_and_then_none_is_gathered(runs):
    largest = max((len(batch) for found in runs for batch in found), default=0)
    got = list(merged((run(found, number, []) for number, found in enumerate(runs)), together=False))
    keys = [int(key) for own, _ in got for key in own]
    assert keys == sorted(key for found in runs for batch in found for key in batch)
    assert max((len(own) for own, _ in got), default=0) <= largest * len(runs)
    for number, _ in enumerate(runs):
        own = [name for _, batch in got for name in batch["of"].to_pylist() if name.startswith(f"{number} ")]
        assert own == sorted(own, key=lambda name: int(name.split()[1]))


def test_a_run_is_opened_when_the_last_batch_before_it_is_at_hand():
    opened: list[int] = []
    rows = merged([run([[7]], 2, opened), run([[5], [6]], 1, opened), run([[0], [1], [2, 3]], 0, opened)])
    assert [[int(k) for k in next(rows)[0]], opened] == [[0], [0]]
    assert [[int(k) for k in next(rows)[0]], 2 in opened] == [[1], False]
    assert [int(k) for own, _ in rows for k in own] == [2, 3, 5, 6, 7]
    assert opened == [0, 1, 2]


def test_rows_in_no_order_are_sorted():
    keys = np.array([3, 1, 2], np.int64)
    ((found, batch),) = in_order(iter([(keys, pa.record_batch([pa.array(["c", "a", "b"])], ["x"]))]))
    assert (found.tolist(), batch["x"].to_pylist()) == ([1, 2, 3], ["a", "b", "c"])
    assert list(in_order(iter([]))) == []
