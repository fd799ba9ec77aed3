"""Spark's Python daemon, which forks the workers, with five things settled before the first fork.

What every task needs is imported once. Spark drops all import caches before each task, and for the zip archives on its
path that means to list them anew, a quarter of a second: archives keep theirs, they do not change. After each task it
collects garbage, and that looks at every object that imports made, a tenth of a second: those are left out. Arrow gives
memory back as soon as a batch is done with, only to ask for it again and have it cleared: the workers keep theirs.
Its socket lies in a folder that nobody else may enter.
"""

from __future__ import annotations

import gc
import os
import tempfile
import zipimport
from contextlib import suppress
from typing import Any

# read once, when Arrow is loaded
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

import duckdb  # noqa: F401  loaded for the workers
import pyarrow.dataset  # noqa: F401  loaded for the workers
import pyiceberg.io.fileformat
import pyiceberg.io.pyarrow  # noqa: F401  loaded for the workers
from pyspark import daemon

zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]  # archives do not change

gc.freeze()

SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"
"""By this variable Spark tells the daemon where to put its socket."""
_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Runs Spark's worker, silent when Spark has closed it for being idle.

    Returns:
        0 to be asked again; anything else ends the process.
    """
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        return 1


daemon.worker = worker


def private_sockets() -> str:
    """Have the daemon's socket lie in a folder of its own, of mode 0700: whoever may write to it is given a worker.

    Returns:
        The folder: inside the one that Spark named where this user has such on this machine.
    """
    named = os.environ.get(SOCKETS, "")
    usable = os.access(named, os.W_OK | os.X_OK)
    os.environ[SOCKETS] = tempfile.mkdtemp(prefix="hardpack-", dir=named if usable else None)
    return os.environ[SOCKETS]


if __name__ == "__main__":
    folder = private_sockets()
    try:
        daemon.manager()
    finally:
        # the manager has removed its socket
        with suppress(OSError):
            os.rmdir(folder)
