"""Holds a task to a rate of bytes per second, as Kafka's Throttler holds its cleaner: a task ahead of it sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

LEAST_SLEEP = 0.001
"""The shortest sleep, seconds; a shorter one is put off until more has gathered."""


class Throttle:
    """Holds one task to a rate from its first byte on.

    Args:
        rate: bytes per second.
        clock: returns the time, seconds.
        sleep: waits for as many seconds as it is given.
    """

    def __init__(
        self, rate: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.rate, self._clock, self._sleep = rate, clock, sleep
        self._lock = Lock()
        self._started: float | None = None
        self._moved = 0.0

    def __reduce__(self) -> tuple[type[Throttle], tuple[float]]:
        """Pickles the rate alone, so that a task which gets a copy begins to count anew."""
        return Throttle, (self.rate,)

    def spend(self, size: float) -> None:
        """Counts so many bytes as moved, and sleeps until the rate allows for them."""
        now = self._clock()
        with self._lock:
            if self._started is None:
                self._started = now
            self._moved += size
            ahead = self._moved / self.rate - (now - self._started)
        if ahead > LEAST_SLEEP:
            self._sleep(ahead)
