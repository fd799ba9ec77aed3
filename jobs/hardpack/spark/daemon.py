"""Spark's Python daemon, which forks the workers, with five things settled before the first fork.

- What every task needs is imported once.
- Zip archives keep their import caches, as they do not change. Spark drops all import caches before each task, and
  listing the archives on its path anew takes a quarter of a second.
- Garbage collection leaves out the objects that imports made. Spark collects garbage after each task, and looking at
  these objects takes a tenth of a second.
- The workers keep the memory that Arrow frees. Else Arrow gives it back as soon as a batch is done with, only to ask
  for it again and have it cleared.
- The daemon's socket lies in a folder that nobody else may enter.
"""

from __future__ import annotations

import gc
import os
import tempfile
import zipimport
from contextlib import suppress
from typing import Any

# set before the imports, as Arrow reads it once, when it is loaded
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
    """Runs Spark's worker, and is silent when Spark has closed the connection because the worker was idle.

    Returns:
        0 when the process goes on to serve another task; anything else ends the process.
    """
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        return 1


daemon.worker = worker


def private_sockets() -> str:
    """Makes a folder of mode 0700 for the daemon's socket, because whoever may write to the socket is given a worker.

    Returns:
        The folder. It lies in the one that Spark named, if this user may write to that on this machine.
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
        # the manager has removed its socket, so the folder is empty
        with suppress(OSError):
            os.rmdir(folder)
