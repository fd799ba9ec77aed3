"""What a method costs: seconds, CPU seconds, bytes and memory of this process and all below it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

SAMPLE_SECONDS = 0.25


@dataclass(frozen=True)
class Cost:
    """One turn. `read` and `written` are what the processes moved through files and pipes, shuffles included."""

    seconds: float
    cpu_seconds: float
    read: int
    written: int
    peak_memory: int
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _tree() -> list[psutil.Process]:
    own = psutil.Process()
    with suppress(psutil.Error):
        return [own, *own.children(recursive=True)]
    return [own]


def _usage() -> dict[int, tuple[float, int, int, int]]:
    found = {}
    for process in _tree():
        with suppress(psutil.Error), process.oneshot():
            cpu, io = process.cpu_times(), process.io_counters()
            # only what is this process's own; memory that workers share with the daemon counts once
            found[process.pid] = (
                cpu.user + cpu.system, io.read_chars, io.write_chars, process.memory_full_info().uss,
            )  # fmt: skip
    return found


def cost_of(work: Callable[[], None]) -> Cost:
    """Run it once; a failure is a result too."""
    before, peak, done = _usage(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], sum(u[3] for u in _usage().values()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started, failure = time.monotonic(), ""
    try:
        work()
    except Exception as error:
        failure = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    seconds = time.monotonic() - started
    done.set()
    watcher.join()
    after = _usage()
    spent = [sum(u[n] - before.get(pid, (0.0, 0, 0, 0))[n] for pid, u in after.items()) for n in range(3)]
    return Cost(seconds, spent[0], int(spent[1]), int(spent[2]), peak[0], failure)
