"""Keys in an open-addressed table, as in Kafka's SkimpyOffsetMap, but whole columns at a time: plain NumPy.

The table is filled in turns. A turn writes each row to the place that its hash names, where the last row written stays.
The rows with that row's key are settled. Rows whose place another key took get another place in the next turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.uint64]
    Numbers = NDArray[np.uint32]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Spreads hashes that differ in few bits (Knuth's multiplicative hashing)."""


def last_of_key(high: Longs, low: Longs) -> Numbers:
    """Returns for each row the number of the last row with the same key.

    Args:
        high: one half of each key's hash, which whoever writes the keys may know.
        low: the other half, which nobody can choose; it tells keys apart that share the first half.
    """
    last = np.arange(len(high), dtype=np.uint32)
    left, turn = last, 0
    own_high, own_low = high, low
    while len(left):
        table, place = _table(own_high, own_low, turn)
        # where several rows have one place NumPy keeps the last
        table[place] = left
        winner = table[place]
        same = (high[winner] == own_high) & (low[winner] == own_low)
        if not (winner[same] >= left[same]).all():
            raise RuntimeError("NumPy kept another row than the last where several have one place")
        if turn:
            last[left[same]] = winner[same]
        else:
            last = np.where(same, winner, last)
        rest = np.flatnonzero(~same)
        left, own_high, own_low = left[rest], own_high[rest], own_low[rest]
        turn += 1
    return last


class KeyTable:
    """Distinct keys, which can be looked up by their hashes.

    Args:
        high: see `last_of_key`.
        low: see `last_of_key`.
    """

    def __init__(self, high: Longs, low: Longs) -> None:
        self._high, self._low = high, low
        self._turns: list[Numbers] = []
        left = np.arange(len(high), dtype=np.uint32)
        while len(left):
            table, place = _table(high[left], low[left], len(self._turns))
            table[place] = left
            self._turns.append(table)
            left = left[table[place] != left]

    def find(self, high: Longs, low: Longs) -> NDArray[np.int64]:
        """Returns for each row the number of its key in this table, -1 where the table lacks the key."""
        numbers = np.full(len(high), -1)
        left = np.arange(len(high))
        for turn, table in enumerate(self._turns):
            own_high, own_low = high[left], low[left]
            candidate = table[_places(own_high, own_low, turn, len(table))]
            # a place that no key took holds 0, which names the first key: the comparison tells
            hit = (self._high[candidate] == own_high) & (self._low[candidate] == own_low)
            numbers[left[hit]] = candidate[hit]
            left = left[~hit]
        return numbers


def _table(high: Longs, low: Longs, turn: int) -> tuple[Numbers, NDArray[np.int64]]:
    """Returns an empty table with room for at least all keys, and the place of each key in it."""
    table = np.zeros(1 << len(high).bit_length(), np.uint32)
    return table, _places(high, low, turn, len(table))


def _places(high: Longs, low: Longs, turn: int, size: int) -> NDArray[np.int64]:
    mixed = (high + np.uint64(turn) * low) * GOLDEN
    return (mixed >> np.uint64(65 - size.bit_length())).astype(np.int64)
