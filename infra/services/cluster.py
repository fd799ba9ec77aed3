"""Spark standalone from pyspark's own files: a master and its workers on loopback."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx
import pyspark

from infra.services.process import Service, free_ports

SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}


class Master(Service):
    """The master of a Spark cluster; `pages` is the port of its web page."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pages = free_ports(1)[0]
        self.env = LOOPBACK
        self.command = [
            SPARK_CLASS, "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.pages),
        ]  # fmt: skip

    @property
    def url(self) -> str:
        """What a session names as its master."""
        return f"spark://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """Returns the workers, running and completed applications that the master's page tells as JSON."""
        told: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self.pages}/json/", timeout=5).raise_for_status().json()
        return told

    def is_up(self) -> bool:
        """Returns whether the master says that it is alive."""
        try:
            return bool(self.state()["status"] == "ALIVE")
        except httpx.HTTPError:
            return False


class Worker(Service):
    """One worker of a Spark cluster; its executors are child processes of it."""

    def __init__(self, folder: Path, master: Master, cores: int, memory: str) -> None:
        super().__init__(folder)
        self._master = master
        self.env = LOOPBACK | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder / "local")}
        self.command = [
            SPARK_CLASS, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", str(self.port),
            "--webui-port", "0", "--cores", str(cores), "--memory", memory, master.url,
        ]  # fmt: skip

    def is_up(self) -> bool:
        """Returns whether the master lists this worker as alive."""
        alive = (w for w in self._master.state()["workers"] if w["state"] == "ALIVE")
        return any(w["port"] == self.port for w in alive)


class Cluster:
    """A master and some workers that live as long as the `with` block."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, memory: str = "2g") -> None:
        self.master = Master(folder / "master")
        self.workers = [Worker(folder / f"worker{n}", self.master, cores, memory) for n in range(workers)]

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            for service in (self.master, *self.workers):
                undo.enter_context(service)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    @property
    def url(self) -> str:
        """What a session names as its master."""
        return self.master.url
