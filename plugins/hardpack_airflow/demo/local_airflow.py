"""A real Airflow on loopback: scheduler, dag processor, triggerer and api server, driven by REST."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import psutil
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

USER = "admin"
DAG_FILE = "from hardpack_airflow import policy_dags\n\nglobals().update(policy_dags())\n"
"""All that an Airflow needs to know of hardpack."""
HEALTHY = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class LocalAirflow:
    """Start, talk to and stop one Airflow whose files lie in `home/airflow`.

    Args:
        home: hardpack's home.
        port: on loopback.
        settings: `[hardpack]` settings, as `schedule` or `tables`.
        config_folder: where `.pyiceberg.yaml` lies.
        roles: each user's role, by the user's name.
        master: Spark's master for the tasks.
    """

    def __init__(
        self, home: Path, port: int, settings: dict[str, str], config_folder: Path,
        roles: Mapping[str, str] = MappingProxyType({USER: "admin"}), master: str = "local[2]",
    ) -> None:  # fmt: skip
        self.folder, self.port, self.roles, self.master = home / "airflow", port, roles, master
        self.url = f"http://127.0.0.1:{port}"
        (self.folder / "dags").mkdir(parents=True, exist_ok=True)
        (self.folder / "dags" / "compaction.py").write_text(DAG_FILE)
        self.passwords = self._passwords()
        self.env = self._env(home, settings, config_folder)
        self._token = ""

    def _passwords(self) -> dict[str, str]:
        file = self.folder / "passwords.json"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(json.dumps({user: secrets.token_urlsafe(9) for user in self.roles}))
        passwords: dict[str, str] = json.loads(file.read_text())
        return passwords

    def _env(self, home: Path, settings: dict[str, str], config_folder: Path) -> dict[str, str]:
        path = [str(Path(sys.executable).parent), os.environ["PATH"]]
        own = {f"AIRFLOW__HARDPACK__{k.upper()}": v for k, v in settings.items()}
        return {
            **os.environ,
            "PATH": os.pathsep.join(path),
            "HARDPACK_HOME": str(home),
            "PYICEBERG_HOME": str(config_folder),
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{n}:{r}" for n, r in self.roles.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.folder / "passwords.json"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": self.master}),
            **own,
        }

    @property
    def _pid_file(self) -> Path:
        return self.folder / "standalone.pid"

    def start(self) -> None:
        """Start all components in a session of their own and wait until they are healthy.

        Raises:
            RuntimeError: its port is taken, or it does not come up; the message holds the end of its log.
        """
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError:
                raise RuntimeError(f"port {self.port} is taken; free it or choose another with --port.") from None
        log = (self.folder / "standalone.log").open("w")
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("airflow")), "standalone"],
            env=self.env, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._pid_file.write_text(str(process.pid))
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and process.poll() is None:
            if self._healthy():
                return
            time.sleep(1)
        self.stop()
        tail = "\n".join((self.folder / "standalone.log").read_text().splitlines()[-15:])
        raise RuntimeError(f"Airflow did not come up; the end of {log.name}:\n{tail}")

    def _healthy(self) -> bool:
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return False
        return all((health.get(part) or {}).get("status") == "healthy" for part in HEALTHY)

    def running(self) -> bool:
        """Returns whether the Airflow that the pid file names still lives."""
        try:
            process = psutil.Process(int(self._pid_file.read_text()))
            return "airflow" in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, psutil.Error):
            return False

    def stop(self) -> None:
        """Stop every process of it, whatever process group it moved to."""
        if everyone := self._everyone():
            os.killpg(everyone[-1].pid, signal.SIGTERM)
            _, alive = psutil.wait_procs(everyone, timeout=15)
            for process in alive:
                process.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End every process of it at once, as a machine that loses its power does."""
        everyone = self._everyone()
        for process in everyone:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(everyone, timeout=15)
        self._pid_file.unlink(missing_ok=True)

    def _everyone(self) -> list[psutil.Process]:
        """Returns Airflow's processes, the leader last; none when it does not run."""
        try:
            leader = psutil.Process(int(self._pid_file.read_text()))
            return [*leader.children(recursive=True), leader] if self.running() else []
        except (OSError, ValueError, psutil.Error):
            return []

    def token(self, user: str) -> str:
        """Returns an access token for one of the users."""
        login = {"username": user, "password": self.passwords[user]}
        reply = httpx.post(f"{self.url}/auth/token", json=login, timeout=30)
        return str(reply.raise_for_status().json()["access_token"])

    @retry(retry=retry_if_exception_type(httpx.TransportError), stop=stop_after_delay(60), wait=wait_fixed(1))
    def call(self, method: str, path: str, **kwargs: Any) -> Any:
        """Returns the JSON answer of one REST call, made as the user `admin`; None when the answer is empty.

        Raises:
            httpx.HTTPStatusError: the server refused it.
        """
        self._token = self._token or self.token(USER)
        headers = {"Authorization": f"Bearer {self._token}"}
        reply = httpx.request(method, f"{self.url}/api/v2/{path}", headers=headers, timeout=60, **kwargs)
        return reply.raise_for_status().json() if reply.content else None

    def prepare(self, dag: str, paused: bool) -> None:
        """Wait for the DAG to be parsed, make its pool, set whether its schedule runs."""
        self._wait_for(dag)
        try:
            self.call("POST", "pools", json={"name": "hardpack", "slots": 1, "description": "one cleaning at a time"})
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.CONFLICT:
                raise
        self.call("PATCH", f"dags/{dag}", json={"is_paused": paused})

    @retry(retry=retry_if_exception_type(httpx.HTTPStatusError), stop=stop_after_delay(90), wait=wait_fixed(1))
    def _wait_for(self, dag: str) -> None:
        self.call("GET", f"dags/{dag}")

    def trigger(self, dag: str, conf: dict[str, Any]) -> str:
        """Starts a run and returns its id."""
        return str(self.call("POST", f"dags/{dag}/dagRuns", json={"logical_date": None, "conf": conf})["dag_run_id"])

    def watch(self, dag: str, run: str, timeout: float = 900) -> Iterator[tuple[str, str]]:
        """Yields each change of a run's tasks, `(task with map index, state)`, and at last `("", state of the run)`."""
        seen: dict[str, str] = {}
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            state = self.call("GET", f"dags/{dag}/dagRuns/{run}")["state"]
            for task in self.call("GET", f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]:
                label = task["task_id"] if task["map_index"] < 0 else f"{task['task_id']}[{task['map_index']}]"
                if task["state"] and seen.get(label) != task["state"]:
                    seen[label] = task["state"]
                    yield label, task["state"]
            if state in ("success", "failed"):
                yield "", state
                return
            time.sleep(1)
        yield "", "timed out"

    def xcom(self, dag: str, run: str, task: str, map_index: int = -1) -> Any:
        """Returns what a task returned."""
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        return self.call("GET", path, params={"map_index": map_index, "deserialize": True})["value"]

    def log(self, dag: str, run: str, task: str, map_index: int = -1) -> str:
        """Returns the log of a task's last try as text."""
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        last = self.call("GET", path if map_index < 0 else f"{path}/{map_index}")["try_number"]
        whole = {"map_index": map_index, "full_content": True}
        content = self.call("GET", f"{path}/logs/{last}", params=whole)["content"]
        return "\n".join(str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in content)
