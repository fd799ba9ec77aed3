"""The workers that our daemon forks: one that Spark has closed ends, and says nothing; their sockets are ours alone."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_daemons_socket_lies_where_nobody_else_may_enter(tmp_path):
    ask = (
        "import os; os.umask(0); from hardpack.spark.daemon import private_sockets\n"
        "made = private_sockets()\n"
        "print(made, oct(os.stat(made).st_mode & 0o777), os.environ['PYTHON_WORKER_FACTORY_SOCK_DIR'])"
    )
    for named, inside in ((str(tmp_path), str(tmp_path)), (str(tmp_path / "of-the-driver-alone"), "")):
        env = os.environ | {"PYTHON_WORKER_FACTORY_SOCK_DIR": named}
        done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, env=env)
        made, mode, told = done.stdout.split()
        assert (mode, told) == ("0o700", made)
        assert made.startswith(inside)


@pytest.mark.spark
def test_no_socket_of_spark_lies_open(spark):
    def there(_):
        folder = os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"]
        return folder, stat.S_IMODE(os.stat(folder).st_mode), os.listdir(folder)

    ((folder, mode, sockets),) = spark.sparkContext.parallelize([0], 1).map(there).collect()
    assert mode == 0o700
    assert [name for name in sockets if name.endswith(".sock")]
    drivers = Path(spark.conf.get("spark.python.unix.domain.socket.dir"))
    assert stat.S_IMODE(drivers.stat().st_mode) == 0o700
    assert [path for path in drivers.iterdir() if path.is_socket()]
    assert Path(folder).parent == drivers
