"""Questions to a catalog, a few at a time and in threads of our own: one that hangs does not hold up Airflow."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
AT_ONCE = 4
"""Questions that are worked on at the same time, in one process."""
IN_LINE_SECONDS = 2.0
"""How long a question waits for its turn."""
PATIENCE_SECONDS = 20.0
"""How long somebody waits for the answer. The thread goes on until the catalog gives up, and keeps its place."""
_places = threading.BoundedSemaphore(AT_ONCE)


async def call(question: Callable[[], T]) -> T:
    """Returns what a blocking function returns, or raises what it raises.

    The threads are daemons, so that the server ends although one of them waits.

    Raises:
        Unavailable: too many questions are under way, or the answer does not come.
    """
    from hardpack.errors import Unavailable

    deadline = time.monotonic() + IN_LINE_SECONDS
    while not _places.acquire(blocking=False):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"{AT_ONCE} pages wait for the catalog or the storage already; see that they answer, then try again."
            )
        await asyncio.sleep(0.05)
    answer: Future[T] = Future()
    # from here on it cannot be cancelled, as its thread cannot
    answer.set_running_or_notify_cancel()
    threading.Thread(target=_work, args=(question, answer), daemon=True, name="hardpack-question").start()
    try:
        return await asyncio.wait_for(asyncio.wrap_future(answer), PATIENCE_SECONDS)
    except TimeoutError:
        raise Unavailable(
            f"the catalog or the storage did not answer in {PATIENCE_SECONDS:g} s; see that they are up and try again."
        ) from None


def _work(question: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(question())
    except BaseException as error:  # whatever it is, who asked gets it
        answer.set_exception(error)
    finally:
        _places.release()
