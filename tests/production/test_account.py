"""The account of the neighbours' test fails on everything that may go wrong with a row."""

import pytest

from tests.production.neighbours import World, account

APPENDED = {
    (0, 0): (b"a", "1"), (0, 1): (b"b", "1"), (0, 2): (b"a", "2"), (0, 3): (b"c", "1"), (0, 4): (b"c", None),
    (0, 5): (b"d", "1"), (0, 6): (b"b", "2"), (0, 7): (b"a", "3"),
}  # fmt: skip
DELETED = {(0, 5)}
CHECKPOINT = {0: 7}
RIGHT = [(0, 2), (0, 6), (0, 7)]
"""Rows that are left: the tombstone of c was removed, d was deleted; 7 is not cleaned yet."""


def found(*rows):
    world = World("t", None, None, None, appended=APPENDED, deleted=DELETED, gone=DELETED)
    return account(world, [(*spot, *APPENDED.get(spot, (b"x", "x"))) for spot in rows], CHECKPOINT)


def test_nothing_is_wrong_with_what_is_right():
    assert found(*RIGHT) == []
    assert found(*RIGHT, (0, 4)) == []


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([*RIGHT, (0, 6)], "doubled: 0/6"),
        ([*RIGHT, (0, 9)], "changed or never written: 0/9"),
        ([*RIGHT, (0, 5)], "deleted, and back: 0/5"),
        ([*RIGHT, (0, 3)], "superseded below the checkpoint, and there: 0/3"),
        ([*RIGHT, (0, 1)], "superseded below the checkpoint, and there: 0/1"),
        ([(0, 2), (0, 7)], "lost: 0/6"),
        ([(0, 2), (0, 6)], "gone from the dirty head: 0/7"),
    ],
)
def test_it_tells(rows, what):
    assert what in found(*rows)
