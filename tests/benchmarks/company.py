"""A company's Airflow: thousands of tables, some due, some broken, one scheduler: python -m tests.benchmarks.company.

Most tables are quiet: their metadata is made by this script and their data files are not there. The due ones are real.
The broken ones were adopted by nobody, and their metadata is missing. Two runs follow each other; meanwhile Airflow's
server is asked for its DAGs and for our overview, as others would. Then the catalog hangs, and the server is asked
again. What is printed: states, seconds of each task, the largest XCom, the server's answers, logs still due.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import threading
import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from hardpack import Hardpack
from hardpack.clock import clock
from hardpack.demo.topic import create_topic
from hardpack_airflow.demo.lakehouse import make_lakehouse
from hardpack_airflow.demo.local_airflow import LocalAirflow
from pyiceberg.catalog import Catalog, load_catalog

from infra.services.process import free_ports
from tests.benchmarks.sensing import add_commit
from tests.conftest import ROOT
from tests.topics import append, row

LOGS, PAUSE_SECONDS, HANG_SECONDS = 4, 0.5, 40


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.company", description=__doc__)
    parser.add_argument("--tables", type=int, default=3000, help="adopted ones")
    parser.add_argument("--due", type=int, default=300, help="of these")
    parser.add_argument("--broken", type=int, default=50, help="tables of strangers without their metadata")
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="hardpack-company-"))
    (home / "jars").symlink_to(ROOT / ".hardpack" / "jars")
    properties = make_lakehouse(home, home)
    catalog = load_catalog("hardpack", **properties)
    make_tables(catalog, args)
    airflow = LocalAirflow(home, free_ports(1)[0], {"schedule": ""}, home)
    try:
        airflow.start()
        airflow.prepare("hardpack", paused=False)
        for number in range(args.runs):
            print(json.dumps({"run": number + 1} | one_run(airflow, catalog)), flush=True)
        print(json.dumps({"catalog hangs": with_a_hanging_catalog(airflow, home)}), flush=True)
    finally:
        airflow.stop()


def make_tables(catalog: Catalog, args: argparse.Namespace) -> None:
    """Quiet, due and broken tables, each kind in a namespace of its own."""
    started = time.monotonic()
    for number in range(args.tables - args.due):
        add_commit(create_topic(catalog, f"quiet.t{number:05}", {}), LOGS, 0)
    for number in range(args.due):
        table = create_topic(catalog, f"due.t{number:05}", {"hardpack.min.cleanable.dirty.ratio": "0"})
        for offset in range(3):
            append(table, {log: [row(offset, "a")] for log in range(LOGS)})
    for number in range(args.broken):
        table = create_topic(catalog, f"broken.t{number:05}", {})
        with table.transaction() as change:
            change.remove_properties(*[name for name in table.properties if name.startswith("hardpack.")])
        Path(table.metadata_location.removeprefix("file://")).unlink()
    print(f"{args.tables + args.broken} tables made in {time.monotonic() - started:.0f} s", flush=True)


def one_run(airflow: LocalAirflow, catalog: Catalog) -> dict[str, Any]:
    """What a run by hand over all tables took, and what the server answered meanwhile."""
    with Asking(airflow) as asking:
        run = airflow.trigger("hardpack", {})
        states = dict(airflow.watch("hardpack", run, timeout=7200))
    return {
        "state": states.pop(""), "tasks": states if set(states.values()) - {"success", "skipped"} else len(states),
        "seconds and instances": spent_by_task(airflow, run),
        "largest xcom, bytes": largest_xcom(airflow),
        "logs still due": sum(log.due for log in Hardpack(catalog).status("due.*", clock())),
    } | asking.told()  # fmt: skip


def spent_by_task(airflow: LocalAirflow, run: str) -> dict[str, list[float]]:
    """Seconds of all instances of each task of a run, and how many there were."""
    found = airflow.call("GET", f"dags/hardpack/dagRuns/{run}/taskInstances", params={"limit": 500})["task_instances"]
    spent: dict[str, list[float]] = {task["task_id"]: [0.0, 0] for task in found}
    for task in found:
        if task["start_date"] and task["end_date"]:
            spent[task["task_id"]][0] += seconds_between(task["start_date"], task["end_date"])
            spent[task["task_id"]][1] += 1
    return {name: [round(seconds, 1), number] for name, (seconds, number) in spent.items()}


def seconds_between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def largest_xcom(airflow: LocalAirflow) -> dict[str, Any]:
    with closing(sqlite3.connect(airflow.folder / "airflow.db")) as database:
        query = "SELECT task_id, key, length(value) FROM xcom ORDER BY length(value) DESC LIMIT 1"
        task, key, size = database.execute(query).fetchone()
    return {"task": task, "key": key, "bytes": size}


def with_a_hanging_catalog(airflow: LocalAirflow, home: Path) -> dict[str, Any]:
    """Holds the catalog's database locked, so that whoever asks it waits, and asks the server."""
    page = f"{airflow.url}/hardpack/tables/due.t00000"
    headers = {"Authorization": f"Bearer {airflow.token('admin')}"}
    with closing(sqlite3.connect(home / "lake" / "catalog.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        with Asking(airflow, "dags") as asking:
            visitors = [threading.Thread(target=visit, args=(page, headers), daemon=True) for _ in range(8)]
            for visitor in visitors:
                visitor.start()
            time.sleep(HANG_SECONDS)
        database.execute("ROLLBACK")
    answer = httpx.get(page, headers=headers, timeout=60)
    return asking.told() | {"afterwards": answer.status_code}


def visit(page: str, headers: dict[str, str]) -> None:
    with suppress(httpx.HTTPError):
        httpx.get(page, headers=headers, timeout=60)


class Asking(threading.Thread):
    """Asks Airflow's server now and then, and keeps how long it took to answer."""

    def __init__(self, airflow: LocalAirflow, *only: str) -> None:
        super().__init__(daemon=True)
        pages = {"dags": "/api/v2/dags", "health": "/api/v2/monitor/health", "overview": "/hardpack/"}
        self.pages = {name: airflow.url + path for name, path in pages.items() if not only or name in only}
        self.headers = {"Authorization": f"Bearer {airflow.token('admin')}"}
        self.over, self.began = threading.Event(), time.monotonic()
        self.taken = {name: list[tuple[float, float]]() for name in self.pages}
        """Seconds by page: how long each answer took, and how long after the start of this thread it was asked for."""

    def run(self) -> None:
        while not self.over.wait(PAUSE_SECONDS):
            for name, address in self.pages.items():
                started = time.monotonic()
                with suppress(httpx.HTTPError):
                    httpx.get(address, headers=self.headers, timeout=60)
                self.taken[name].append((time.monotonic() - started, started - self.began))

    def __enter__(self) -> Asking:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def told(self) -> dict[str, Any]:
        """Sums up the answers of each page that answered, as a list of five numbers.

        They are seconds of the median answer, of the slowest in a hundred and of the slowest, seconds from the start of
        this thread to the question of the slowest, and the number of answers.
        """
        found = {}
        for name, taken in self.taken.items():
            if not taken:
                continue
            seconds = sorted(seconds for seconds, _ in taken)
            (slowest, at), number = max(taken), len(taken)
            told = statistics.median(seconds), seconds[int(number * 0.99)], slowest, at, number
            found[f"{name}, answers in s"] = [round(value, 2) for value in told]
        return found


if __name__ == "__main__":
    main()
