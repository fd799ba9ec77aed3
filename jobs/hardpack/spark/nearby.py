"""Where the Python part of a small step runs: in the driver's own process, as Spark's workers take seconds to start."""

from __future__ import annotations

from collections.abc import Iterable

ROWS = 500_000
"""Rows up to which a step is done before a worker has started and loaded its libraries."""
BYTES = 32 * 1024 * 1024
"""File bytes up to which the driver reads and writes by itself."""


def runs_here(files: Iterable[tuple[int, int]]) -> bool:
    """Returns whether the driver does a step by itself.

    Args:
        files: of each file that the step reads, its rows and its bytes.
    """
    rows, size = 0, 0
    for more_rows, more_bytes in files:
        rows, size = rows + more_rows, size + more_bytes
        if rows > ROWS or size > BYTES:
            return False
    return True


def keep_to_one_core() -> None:
    """Keeps Arrow to the core that Spark gives a task; called in workers alone, as it holds for a whole process."""
    import pyarrow as pa

    pa.set_cpu_count(1)
