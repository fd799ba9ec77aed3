"""Reading ahead, so that a distant storage's answer is on its way while rows that came before are worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

File = TypeVar("File")
Reading = TypeVar("Reading")
Batch = TypeVar("Batch")

AHEAD_BYTES = 16 * 1024 * 1024
"""File bytes up to which files are begun at once; of larger ones the next is begun, and no other."""
AHEAD_FILES = 8
"""Files that are begun at once at most: so many answers of a storage are waited for side by side."""


def one_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Begins to read and returns the same batches, of which the next is always read while one is worked on.

    Args:
        batches: none of them is None.
    """
    reading = _one_ahead(batches)
    next(reading)
    return reading  # type: ignore[return-value]


def _one_ahead(batches: Iterator[Batch]) -> Iterator[Batch | None]:
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, batches, None)
        yield None
        while (batch := following.result()) is not None:
            following = reader.submit(next, batches, None)
            yield batch


def files_ahead(
    files: Iterable[File], begin: Callable[[File], Reading], size: Callable[[File], int]
) -> Iterator[tuple[File, Reading]]:
    """Yields each file with what reads it, after the files behind it were begun too.

    Args:
        files: in the order in which they are wanted.
        begin: begins to read a file, and does not wait for it.
        size: how many bytes a file has, or takes while it is read.
    """
    begun = deque[tuple[File, Reading]]()
    held = 0
    for file in files:
        begun.append((file, begin(file)))
        held += size(file)
        # behind the one that is worked on there is always another
        while len(begun) > 1 and (held > AHEAD_BYTES or len(begun) > AHEAD_FILES):
            held -= size(begun[0][0])
            yield begun.popleft()
    while begun:
        yield begun.popleft()
