"""How far a step of a pass is, said while it runs: files and bytes done of those planned, bytes a second, time left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rich.filesize import decimal

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)
T = TypeVar("T")
EVERY_SECONDS = 5.0


@dataclass
class _Count:
    """Counts in one process what an accumulator counts across Spark's tasks."""

    value: int = 0

    def add(self, more: int) -> None:
        self.value += more


class Progress:
    """Counts what Spark's tasks did; a task's share is known once it has ended.

    Args:
        context: Spark's; None for a step that is done in the driver's own process.
        what: what is being done, for people.
        files: number of files to be worked on.
        size: the bytes of these files.
    """

    def __init__(self, context: SparkContext | None, what: str, files: int, size: int) -> None:
        self.what, self.files, self.bytes = what, files, size
        self._files: Any = context.accumulator(0) if context else _Count()
        self._bytes: Any = context.accumulator(0) if context else _Count()
        self._started = time.monotonic()

    def did(self, files: int, size: int) -> None:
        """Adds what a task has finished to the progress total."""
        self._files.add(files)
        self._bytes.add(size)

    def of(self, step: Callable[[], T]) -> T:
        """Runs a step that is done in one piece, logs how it goes, and returns the step's result."""
        with self.logged():
            done = step()
            self.did(self.files, self.bytes)
        return done

    def line(self, seconds: float) -> str:
        """Returns the line that says how far the step is after so many seconds."""
        files, size = self._files.value, self._bytes.value
        if not size or seconds <= 0:
            return f"{self.what}: 0 of {self.files:,} files, {decimal(self.bytes)}"
        left = seconds * (self.bytes - size) / size
        return (
            f"{self.what}: {files:,} of {self.files:,} files, {decimal(size)} of {decimal(self.bytes)}, "
            f"{decimal(int(size / seconds))}/s, {left:.0f} s left"
        )

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Logs a line every few seconds while the work goes on, and one when it is done."""
        over = threading.Event()

        def tell() -> None:
            while not over.wait(EVERY_SECONDS):
                log.info("%s", self.line(time.monotonic() - self._started))

        teller = threading.Thread(target=tell, daemon=True, name="hardpack-progress")
        teller.start()
        try:
            yield
            log.info("%s", self.line(time.monotonic() - self._started))
        finally:
            over.set()
            teller.join()
