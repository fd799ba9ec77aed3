"""What each commit of a pass takes: whole runs of files, in order, up to so many bytes; no JVM."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hardpack.compaction.choice import Choice
from hardpack.compaction.dead_rows import DeadRows
from hardpack.compaction.portions import portions
from hypothesis import given
from hypothesis import strategies as st

SIZES = {"a": 40, "b": 60, "c": 100, "d": 10, "e": 10, "v": 5}


def choice_of(runs, commit_bytes, hide=(), sizes=SIZES, emptied=(), leader_epoch=None):
    """A choice over files of these sizes; each has a dead row."""
    inputs: Any = SimpleNamespace(
        work=SimpleNamespace(
            request=SimpleNamespace(commit_bytes=commit_bytes), columns=SimpleNamespace(leader_epoch=leader_epoch)
        ),
        data_files={path: SimpleNamespace(bytes=size, rows=3) for path, size in sizes.items()},
    )
    paths = [*hide, *(path for run in runs for path in run)]
    rows = {path: SimpleNamespace(skipped=range(3 if path in emptied else 1)) for path in paths}
    dead = cast("Any", DeadRows(cast("Any", rows), cast("Any", {"0": "facts"})))
    return Choice(inputs, dead, cast("Any", dict.fromkeys(hide, "positions")), runs)


@pytest.mark.parametrize(
    ("limit", "packs"),
    [
        (None, [[["a", "b"], ["c"], ["d"], ["e"]]]),
        (220, [[["a", "b"], ["c"], ["d"], ["e"]]]),
        (200, [[["a", "b"], ["c"]], [["d"], ["e"]]]),
        (110, [[["a", "b"]], [["c"], ["d"]], [["e"]]]),
        (1, [[["a", "b"]], [["c"]], [["d"]], [["e"]]]),
    ],
)
def test_runs_are_taken_in_order_while_they_fit(limit, packs):
    made = portions(choice_of([["a", "b"], ["c"], ["d"], ["e"]], limit))
    assert [one.rewrite for one in made] == packs
    assert [(one.number, one.of, one.is_last) for one in made] == [
        (n, len(packs), n == len(packs)) for n in range(1, len(packs) + 1)
    ]


def test_a_pass_that_fits_is_the_choice_itself():
    whole = choice_of([["a"], ["b"]], 100, hide=["v"])
    assert portions(whole) == [whole]
    nothing = choice_of([], 1, hide=["v"])
    assert portions(nothing) == [nothing]


def test_files_without_a_living_row_come_last():
    runs = [["a", "b"], ["c"], ["d"], ["e"]]
    made = portions(choice_of(runs, 1, emptied="abd"))
    assert [one.rewrite for one in made] == [[["c"]], [["e"], ["a", "b"], ["d"]]]
    made = portions(choice_of(runs, 1, emptied="acde"))
    assert [one.rewrite for one in made] == [runs]


def test_where_one_row_of_an_offset_decides_about_others_there_is_one_commit():
    whole = choice_of([["c"], ["d"]], 1, leader_epoch="leader_epoch")
    assert portions(whole) == [whole]


def test_rows_that_are_hidden_come_last():
    first, last = portions(choice_of([["c"], ["d"]], 100, hide=["v"]))
    assert (first.hide, set(first.dead.files)) == ({}, {"c"})
    assert (set(last.hide), set(last.dead.files)) == ({"v"}, {"v", "d"})
    assert first.dead.facts == last.dead.facts == {"0": "facts"}


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=12), st.integers(1, 120))
def test_every_run_is_taken_once_and_no_portion_is_too_large_or_needlessly_small(run_sizes, limit):
    sizes = {f"{at}-{n}": size for at, run in enumerate(run_sizes) for n, size in enumerate(run)}
    runs = [[f"{at}-{n}" for n in range(len(run))] for at, run in enumerate(run_sizes)]
    made = portions(choice_of(runs, limit, sizes=sizes))
    assert [run for one in made for run in one.rewrite] == runs
    taken = [sum(sizes[path] for path in one.removed) for one in made]
    assert all(size <= limit or len(one.rewrite) == 1 for size, one in zip(taken, made, strict=True))
    firsts = [sum(sizes[path] for path in one.rewrite[0]) for one in made[1:]]
    assert all(size + first > limit for size, first in zip(taken[:-1], firsts, strict=True))
