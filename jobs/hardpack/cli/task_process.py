"""Ends a Spark driver together with the process that asked for it, even one that was killed outright."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading

log = logging.getLogger(__name__)


def end_with(process: int) -> None:
    """Kills this driver and its JVM as soon as another process of this machine is gone.

    Otherwise spark-submit would go on when its Airflow task is killed, beside the task's next try. The kernel tells
    when the process ends, so that another process which gets its number later does no harm. Where the kernel cannot be
    asked, a warning says so.

    Args:
        process: the number of the process that waits for the driver.
    """
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        _end()
    except (AttributeError, OSError) as error:
        log.warning("this driver will not end with its task, as the system does not tell when that ends: %s", error)
    else:
        threading.Thread(target=_end_after, args=(handle,), daemon=True, name="hardpack-task").start()


def _end_after(handle: int) -> None:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.poll()
    _end()


def _end() -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit's JVM started this process and could still commit
        os.kill(os.getppid(), signal.SIGKILL)
    os._exit(1)
