"""The workers that our daemon forks: one that Spark has closed ends; no JVM."""

import subprocess
import sys

CLOSED = """
import os, socket, tempfile
os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
from hardpack.spark import daemon
ours, sparks = socket.socketpair()
sparks.close()
print("code", daemon.worker(ours, True))
"""


def test_a_worker_that_spark_has_closed_does_not_ask_again():
    """Spark closes workers that were idle for a minute; a code of 0 would make the daemon call it for ever."""
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[-2] == "code"
    assert int(done.stdout.split()[-1]) != 0
