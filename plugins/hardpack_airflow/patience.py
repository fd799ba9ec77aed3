"""Questions to what may hang, a few at a time and in threads of our own, so that Airflow's server goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import TypeVar

T = TypeVar("T")
AT_ONCE = 4
"""Questions that one of those asked works on at the same time, in one process."""
IN_LINE_SECONDS = 2.0
"""How long a question waits for its turn."""
PATIENCE_SECONDS = 20.0
"""How long somebody waits for the answer. The thread goes on until who was asked gives up, and keeps its place."""


class Asked:
    """One who is asked by pages, and who does not hold up what asks another.

    Args:
        name: as messages say it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._places = threading.BoundedSemaphore(AT_ONCE)

    async def answer(self, question: Callable[[], T], seconds: float | None = None) -> T:
        """Returns what a blocking function returns, or raises what it raises.

        The threads are daemons, so that the server ends although one of them waits.

        Args:
            question: asks.
            seconds: how long to wait for the answer; None for as long as usual.

        Raises:
            Unavailable: too many questions are under way, or the answer does not come.
        """
        from hardpack.errors import Unavailable

        seconds = PATIENCE_SECONDS if seconds is None else seconds
        deadline = time.monotonic() + IN_LINE_SECONDS
        while not self._places.acquire(blocking=False):
            if time.monotonic() > deadline:
                raise Unavailable(f"{AT_ONCE} pages wait for {self.name} already; see that it answers, then try again.")
            await asyncio.sleep(0.05)
        answer: Future[T] = Future()
        # from here on it cannot be cancelled, as its thread cannot
        answer.set_running_or_notify_cancel()
        threading.Thread(target=self._work, args=(question, answer), daemon=True, name="hardpack-question").start()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), seconds)
        except TimeoutError:
            raise Unavailable(
                f"{self.name} did not answer in {seconds:g} s; see that it is up and try again."
            ) from None

    def _work(self, question: Callable[[], T], answer: Future[T]) -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # whatever it is, who asked gets it
            answer.set_exception(error)
        finally:
            self._places.release()


@cache
def catalog_of(name: str) -> Asked:
    """Returns a catalog, by its name in the policies, and the storage of its tables."""
    return Asked(f"catalog {name}")


POLICIES = Asked("the disk of the policy file")
REPORTS = Asked("the place of the reports")
"""This disk, and S3 where `[hardpack] reports_s3` names it."""
