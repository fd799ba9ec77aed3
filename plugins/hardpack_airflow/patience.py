"""Blocking questions to a service or disk that may hang; they run in threads of their own, a few at a time.

So Airflow's server goes on while one of them hangs.
"""

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
"""Questions that one `Asked` works on at the same time, in one process."""
IN_LINE_SECONDS = 2.0
"""How long a question waits for its turn."""
PATIENCE_SECONDS = 20.0
"""How long a page waits for an answer. The question's thread goes on until its call ends, and keeps its place."""


class Asked:
    """A service or disk that pages ask. When it hangs, it holds up no question to another one.

    Args:
        name: its name in messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._places = threading.BoundedSemaphore(AT_ONCE)

    async def answer(self, question: Callable[[], T], seconds: float | None = None) -> T:
        """Returns what a blocking function returns, or raises what it raises.

        The threads are daemons, so that the server can end while one of them waits.

        Args:
            question: the blocking function.
            seconds: how long to wait for the answer; None for `PATIENCE_SECONDS`.

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
        # from here on the future cannot be cancelled, as its thread cannot
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
        except BaseException as error:  # whatever it is, the caller of `answer` gets it
            answer.set_exception(error)
        finally:
            self._places.release()


@cache
def catalog_of(name: str) -> Asked:
    """Returns the `Asked` for a catalog and the storage of its tables, by the catalog's name in the policies."""
    return Asked(f"catalog {name}")


POLICIES = Asked("the disk of the policy file")
REPORTS = Asked("the place of the reports")
"""The `Asked` for this disk, and for S3 where `[hardpack] reports_s3` names a place there."""
