"""Spark's Python daemon, which forks the workers, with four things settled before the first fork.

What every task needs is imported once. Spark drops all import caches before each task, and for the zip archives on its
path that means to list them anew, a quarter of a second: archives keep theirs, they do not change. After each task it
collects garbage, and that looks at every object that imports made, a tenth of a second: those are left out. Arrow gives
memory back as soon as a batch is done with, only to ask for it again and have it cleared: the workers keep theirs.
"""

from __future__ import annotations

import gc
import os
import zipimport
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

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Spark's worker, silent when Spark has closed it for being idle.

    Returns:
        0 to be asked again; anything else ends the process.
    """
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        return 1


daemon.worker = worker

if __name__ == "__main__":
    daemon.manager()
