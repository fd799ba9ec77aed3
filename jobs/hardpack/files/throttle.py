"""Bytes per second, as Kafka's Throttler holds its cleaner to them: who is ahead of the rate sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

LEAST_SLEEP = 0.001
"""Seconds; less is owed until it has gathered."""


class Throttle:
    """Holds one task to a rate from its first byte on.

    Args:
        rate: bytes per second.
        clock: gives seconds.
        sleep: takes seconds.
    """

    def __init__(
        self, rate: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.rate, self._clock, self._sleep = rate, clock, sleep
        self._lock = Lock()
        self._started: float | None = None
        self._moved = 0.0

    def __reduce__(self) -> tuple[type[Throttle], tuple[float]]:
        """A task that it is handed to begins anew."""
        return Throttle, (self.rate,)

    def spend(self, size: float) -> None:
        """Say that so many bytes were moved, and wait until they may have been."""
        now = self._clock()
        with self._lock:
            if self._started is None:
                self._started = now
            self._moved += size
            ahead = self._moved / self.rate - (now - self._started)
        if ahead > LEAST_SLEEP:
            self._sleep(ahead)
