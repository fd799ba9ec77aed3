"""The trigger behind a sensor that waits: looks at metadata again and again, off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from hardpack_airflow.failures import hopeless
from hardpack_airflow.planning import plan_units

SHORTEST_PAUSE = 15.0
"""Seconds before a trigger may fire. The scheduler learns up to 5 seconds late that the worker has ended, and fails a
task that was resumed before that."""
MOST_TOLD = 300
"""Most reasons in an event."""
TRIES = 6
"""Tries to plan while the catalog does not answer, in half a minute or more."""
patient = retry(
    retry=retry_if_exception(lambda error: type(error).__name__ == "Unavailable"),
    stop=stop_after_attempt(TRIES), wait=wait_exponential_jitter(initial=1, max=30), reraise=True,
)  # fmt: skip
"""Makes a look try again while the catalog does not answer."""


def event_of(seen: dict[str, Any]) -> dict[str, Any]:
    """Returns the event of a look, which says what is due and why; the next task makes the plans anew.

    It goes through Airflow's database, so it has the first `MOST_TOLD` reasons.
    """
    reasons = seen["reasons"][:MOST_TOLD]
    if more := len(seen["reasons"]) - len(reasons):
        reasons.append(f"and {more} more lines; `hardpack plan` says all of a table")
    passed_on = {name: seen[name] for name in ("tables", "errors", "lasting", "held", "gauges")}
    return {"due": bool(seen["units"]), "reasons": reasons, **passed_on}


def failed(error: Exception) -> dict[str, Any]:
    """Returns the event of a look that raised: its sentence, and whether another try cannot help."""
    from hardpack.failures import as_hardpack_error

    return {"failure": f"{as_hardpack_error(error)}", "hopeless": hopeless(error)}


class DirtyLogsTrigger(BaseTrigger):
    """Fires when a log is due, or when the time to wait is over. Its sensor has looked once and found nothing.

    :param question: what `plan_units` is asked, as keyword arguments.
    :param wait: seconds to go on looking.
    :param poke_interval: seconds between two looks.
    :param by_clock: whether each look plans for the time at which it is made. A run of an interval plans for its end.
    :param until: in place of `wait`, when to stop looking, in seconds since the epoch; so a triggerer that starts anew
        does not begin the wait again.
    """

    def __init__(
        self,
        question: dict[str, Any],
        wait: float = 0,
        poke_interval: float = 60,
        by_clock: bool = False,
        until: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's constructor has no annotations
        self.question, self.poke_interval, self.by_clock = question, poke_interval, by_clock
        self.until = time.time() + wait if until is None else until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Returns where the class is and how to make it again."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        names = ("question", "poke_interval", "by_clock", "until")
        return path, {name: getattr(self, name) for name in names}

    @patient
    async def _look(self) -> dict[str, Any]:
        from hardpack.clock import clock

        at = {"now": clock()} if self.by_clock else {}
        return await asyncio.to_thread(plan_units, **self.question | at)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait and look, again and again, until something is due or time is up; an error ends it with its sentence."""
        pause = max(self.poke_interval, SHORTEST_PAUSE)
        while True:
            await asyncio.sleep(pause)
            pause = self.poke_interval
            try:
                seen = await self._look()
            except Exception as error:  # the event carries it to the task, which fails with it
                yield TriggerEvent(failed(error))
                return
            if seen["units"] or seen["errors"] or time.time() >= self.until:
                yield TriggerEvent(event_of(seen))
                return
