"""The trigger behind the sensor: looks at metadata off the event loop until something is to be done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from hardpack_airflow.look import look

SETTLE_SECONDS = 2.0
"""Before the first look: a task resumed before the executor has told of its deferral is taken for a failed one."""
TRIES = 6
"""Of a look while the catalog does not answer, in half a minute or more."""


class DirtyLogsTrigger(BaseTrigger):
    """Fires when a log is due, or when the time to wait is over.

    :param question: what `look` is asked, as keyword arguments.
    :param wait: seconds to go on looking; 0 looks once.
    :param poke_interval: seconds between two looks.
    """

    def __init__(self, question: dict[str, Any], wait: float = 0, poke_interval: float = 60) -> None:
        super().__init__()
        self.question, self.wait, self.poke_interval = question, wait, poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where the class is and how to make it again."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"question": self.question, "wait": self.wait, "poke_interval": self.poke_interval}

    @retry(
        retry=retry_if_exception(lambda error: type(error).__name__ == "Unavailable"),
        stop=stop_after_attempt(TRIES), wait=wait_exponential_jitter(initial=1, max=30), reraise=True,
    )  # fmt: skip
    async def _look(self) -> dict[str, Any]:
        return await asyncio.to_thread(look, **self.question)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, wait, look again; an error ends it with its sentence, a catalog that is away only after some tries."""
        await asyncio.sleep(SETTLE_SECONDS)
        deadline = time.monotonic() + self.wait
        while True:
            try:
                seen = await self._look()
            except Exception as error:  # the event carries it to the task, which fails with it
                from hardpack.failures import sentence

                yield TriggerEvent({"failure": f"{sentence(error)}", "hopeless": type(error).__name__ == "BadInput"})
                return
            if seen["units"] or seen["errors"] or time.monotonic() >= deadline:
                # plans are made anew by the next task, an event only says that and why
                said = {name: seen[name] for name in ("tables", "reasons", "errors", "gauges")}
                yield TriggerEvent({"due": bool(seen["units"]), **said})
                return
            await asyncio.sleep(self.poke_interval)
