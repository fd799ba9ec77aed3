"""A server process on loopback that can be killed outright and started again on the same data."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self

NONE: Mapping[str, str] = MappingProxyType({})


class Service(ABC):
    """One server whose files lie in a folder and stay there; `with` starts and stops it.

    Args:
        folder: of its own, made when it is missing.
        port: on loopback; a free one when it is None.
    """

    command: Sequence[str]
    env: Mapping[str, str] = NONE
    user: str | None = None
    """The user that the server runs as when root starts it; None for root itself."""
    patience_s = 60

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder, self.port = folder, port or free_ports(1)[0]
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The service's name, as in messages and in the name of its log."""
        return type(self).__name__.lower()

    @property
    def log(self) -> Path:
        """File that the process writes its output to."""
        return self.folder / f"{self.name}.log"

    @abstractmethod
    def is_up(self) -> bool:
        """Returns whether the server answers."""

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Raises:
            RuntimeError: the server does not come up; the message has the end of its log.
        """
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env={**os.environ, **self.env}, cwd=self.folder, stdout=log, stderr=log,
                start_new_session=True, user=self.user if os.geteuid() == 0 else None,
            )  # fmt: skip
        end = time.monotonic() + self.patience_s
        while time.monotonic() < end and self._process.poll() is None:
            if self.is_up():
                return
            time.sleep(0.1)
        self.kill()
        tail = " ".join(self.log.read_text(errors="replace").splitlines()[-5:])
        raise RuntimeError(f"{self.name} does not come up on port {self.port}; its log ends: {tail}")

    def stop(self) -> None:
        """Asks the server to end, and kills it after ten seconds."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()

    def kill(self) -> None:
        """Kills the server and all its children at once, in the middle of whatever they do."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def free_ports(number: int) -> list[int]:
    """Returns free ports of loopback; all are held at the same time, so that they differ."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    with ExitStack() as held:
        return [held.enter_context(server).getsockname()[1] for server in servers]


def answers(port: int) -> bool:
    """Returns whether something listens on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
