"""The workers that our daemon forks: one that Spark has closed ends, and says nothing; no JVM."""

import subprocess
import sys

CLOSED = """
import os, socket, tempfile
os.environ |= {"SPARK_LOCAL_DIRS": tempfile.gettempdir(), "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}
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
    assert "Traceback" not in done.stderr
