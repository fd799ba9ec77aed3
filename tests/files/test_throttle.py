"""Bytes per second: exact on a clock of our own, and measured on files."""

import pickle
import time

import pytest
from hardpack.files.data_files import DataFiles
from hardpack.files.throttle import Throttle
from hardpack.files.writer import write_files
from hypothesis import given
from hypothesis import strategies as st

from tests.files.test_data_files import refs
from tests.topics import append, columns_of, new_topic, row


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 5)), min_size=1, max_size=30), st.integers(1, 10**6))
def test_no_prefix_is_ahead_of_the_rate(moves, rate):
    at, slept = [100.0], [0.0]

    def sleep(seconds):
        at[0] += seconds
        slept[0] += seconds

    throttle, moved, worked = Throttle(rate, lambda: at[0], sleep), 0, 0.0
    for size, work in moves:
        throttle.spend(size)
        moved += size
        assert at[0] - 100 >= moved / rate - 0.001 - 1e-6
        # and nobody waits longer than that
        assert slept[0] <= moved / rate + 1e-6
        at[0] += work
        worked += work


def test_without_a_limit_nobody_sleeps():
    Throttle(1.7e308, sleep=lambda _: pytest.fail("slept")).spend(10**15)


def test_a_task_that_it_is_handed_to_begins_anew():
    throttle = Throttle(10**9)
    throttle.spend(10**7)
    handed = pickle.loads(pickle.dumps(throttle))
    assert (handed.rate, handed._moved) == (10**9, 0)


@pytest.mark.parametrize("share", [1, 4])
def test_a_task_takes_as_long_as_its_bytes(catalog, share):
    table = new_topic(catalog)
    append(table, {0: [row(o, f"k{o}", f"{o * 7919:050d}") for o in range(20_000)]})
    (file,) = refs(table)
    rate = file.bytes / share
    files = DataFiles.of(table, rate)
    started = time.monotonic()
    (new,) = (made.entry for made in write_files(files, files.read_whole(file), file, 10**9))
    moved = file.bytes + new["file-size-in-bytes"]
    assert time.monotonic() - started >= 0.9 * moved / rate


def test_columns_count_for_what_they_take(catalog, monkeypatch):
    table = new_topic(catalog)
    append(table, {0: [row(o, f"k{o}", f"{o * 7919:050d}") for o in range(1000)]})
    (file,), spent = refs(table), []
    sizes = {f.name: 10**f.field_id for f in table.schema().fields}
    ids = [f.field_id for f in table.schema().fields]
    entry = dict(file.entry) | {"column-sizes": {"keys": ids, "values": list(sizes.values())}}
    monkeypatch.setattr(Throttle, "spend", lambda self, size: spent.append(size))
    files = DataFiles.of(table)
    list(files.read(type(file)(entry), columns_of(files, "key", "offset")))
    assert sum(spent) == pytest.approx(sizes["key"] + sizes["offset"])
