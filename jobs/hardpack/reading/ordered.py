"""Rows brought into order with little memory: sorted runs are merged, others are sorted through a temporary file."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows = tuple["NDArray[np.int64]", pa.RecordBatch]
"""The key by which each row is ordered, and the rows."""
IN_MEMORY = 64 * 1024 * 1024
"""Most bytes of rows that are sorted in memory."""
AT_ONCE = 64 * 1024
"""Rows that are yielded together once they are sorted through a temporary file."""


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Rows in order of their keys, which are not read before it is their turn."""

    first: int
    """A key that is not greater than that of any row."""
    open: Callable[[], Iterator[Rows]]
    name: str = ""
    """Decides between rows of one key: those of the run whose name comes first are first."""


class _Head:
    """The batches of a run that are read and not yielded yet: the current one, and the one after it."""

    def __init__(self, run: SortedRun) -> None:
        self.name = run.name
        self._rest = (rows for rows in run.open() if len(rows[0]))
        self.now = next(self._rest, None)
        self.then = next(self._rest, None)

    @property
    def last(self) -> int:
        return 0 if self.now is None else int(self.now[0][-1])

    def goes_on_with(self, key: int) -> bool:
        """Returns whether rows of a key may go on in batches after the current one."""
        return self.then is not None and self.last == key and int(self.then[0][0]) == key

    def grow(self) -> None:
        """Appends the next batch to the current one."""
        if self.now is None or self.then is None:
            return
        self.now = np.concatenate([self.now[0], self.then[0]]), pa.concat_batches([self.now[1], self.then[1]])
        self.then = next(self._rest, None)

    def take(self, key: int) -> Rows | None:
        """Removes and returns the rows up to and with a key; None where there are none."""
        if self.now is None:
            return None
        keys, batch = self.now
        count = int(np.searchsorted(keys, key, "right"))
        if count == len(keys):
            self.now, self.then = self.then, next(self._rest, None)
        else:
            self.now = keys[count:], batch.slice(count)
        return (keys[:count], batch.slice(0, count)) if count else None


def merged(runs: Iterable[SortedRun], together: bool = True) -> Iterator[Rows]:
    """Yields the rows of all runs in order. A run is opened when it is its turn, or during the last batch before that.

    Args:
        runs: each in order.
        together: whether all rows of one key are yielded together, for which any number of them is held. Otherwise no
            more than two batches of each open run are held.
    """
    waiting = deque(sorted(runs, key=lambda run: run.first))
    heads: list[_Head] = []
    with ThreadPoolExecutor(1) as opener:
        ahead: Future[_Head] | None = None
        while waiting or heads:
            end = min((head.last for head in heads), default=None)
            while waiting and (end is None or waiting[0].first <= end):
                run = waiting.popleft()
                head, ahead = ahead.result() if ahead else _Head(run), None
                if head.now is not None:
                    heads.append(head)
                    end = head.last if end is None else min(end, head.last)
            if end is None:
                return
            if waiting and not ahead and all(head.then is None for head in heads):
                ahead = opener.submit(_Head, waiting[0])
            unsure = [head for head in heads if together and head.goes_on_with(end)]
            heads.sort(key=lambda head: head.name)
            taken = [rows for head in heads if (rows := head.take(end - 1 if unsure else end))]
            if taken:
                yield _together(taken)
            for head in unsure:
                head.grow()
            heads = [head for head in heads if head.now is not None]


def _together(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return _by_place(np.concatenate([k for k, _ in parts]), pa.concat_batches([b for _, b in parts]))


def _by_place(keys: NDArray[np.int64], batch: pa.RecordBatch) -> Rows:
    if is_ascending(keys):
        return keys, batch
    order = np.argsort(keys, kind="stable")
    return keys[order], batch.take(pa.array(order))


def is_ascending(keys: NDArray[Any]) -> bool:
    """Returns whether no key is less than the one before it."""
    return bool((keys[1:] >= keys[:-1]).all())


def in_order(rows: Iterator[Rows]) -> Iterator[Rows]:
    """Yields rows sorted by their keys. Above `IN_MEMORY` bytes they lie in a temporary file meanwhile."""
    parts: list[Rows] = []
    size = 0
    for part in rows:
        parts.append(part)
        size += part[1].nbytes
        if size > IN_MEMORY:
            yield from _sorted_beside_disk(parts, rows)
            return
    if parts:
        yield _by_place(*_together(parts))


def _sorted_beside_disk(begun: Sequence[Rows], rest: Iterator[Rows]) -> Iterator[Rows]:
    keys, starts = [k for k, _ in begun], [0, *np.cumsum([len(k) for k, _ in begun]).tolist()]
    with tempfile.NamedTemporaryFile(prefix="hardpack-read-") as file:
        with pa.ipc.new_file(file, begun[0][1].schema) as out:
            for _, batch in begun:
                out.write(batch)
            for some, batch in rest:
                out.write(batch)
                keys.append(some)
                starts.append(starts[-1] + len(some))
        file.flush()
        every = np.concatenate(keys)
        order = np.argsort(every, kind="stable")
        with pa.memory_map(file.name) as mapped:
            spilled = pa.ipc.open_file(mapped)
            for at in range(0, len(order), AT_ONCE):
                some = order[at : at + AT_ONCE]
                yield every[some], _picked(spilled, np.asarray(starts), some)


def _picked(spilled: pa.RecordBatchFileReader, starts: NDArray[np.int64], rows: NDArray[np.int64]) -> pa.RecordBatch:
    """Returns rows of a file of batches in the order of their numbers given; Arrow's own way would load all batches."""
    homes = np.searchsorted(starts, rows, "right") - 1
    by_home = np.argsort(homes, kind="stable")
    parts = []
    for home in np.unique(homes):
        own = rows[by_home][homes[by_home] == home] - starts[home]
        parts.append(spilled.get_batch(int(home)).take(pa.array(own)))
    back = np.empty_like(by_home)
    back[by_home] = np.arange(len(by_home))
    return pa.concat_batches(parts).take(pa.array(back))
