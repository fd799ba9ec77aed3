"""One log of a million files beside an appender: python -m tests.benchmarks.million [--files 1000000].

The files are named in the table's metadata and not there. Printed is what a plan takes, what a pass asks Iceberg about
its files, and the commit that puts new files in the place of some, while another writer appends every ten seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

from hardpack import Hardpack
from hardpack.compaction.session import TableSession
from hardpack.demo.topic import create_topic
from hardpack.files.content_file import ContentFile
from hardpack.rules.model import SnapshotRef
from hardpack.spark.commit import CommitChange, Commits
from hardpack.spark.jvm_table import JvmTable
from hardpack.spark.session import open_session
from hardpack.table.log_name import Among

from tests.benchmarks.datasets import T0, open_lake
from tests.benchmarks.sensing import add_commit, seconds

NAME = "db.one_log"
MANIFESTS = 100
EVERY = 10
"""Seconds between two appends of the other writer."""


class Appender:
    """Another writer: one file each time, until the block ends."""

    def __init__(self, folder: Path, first: int) -> None:
        self._stop, self.appended, self._first = threading.Event(), 0, first
        self._table = open_lake(folder).load_table(NAME)
        self._thread = threading.Thread(target=self._append)

    def _append(self) -> None:
        while not self._stop.wait(EVERY):
            add_commit(self._table.refresh(), 1, self._first + self.appended)
            self.appended += 1

    def __enter__(self) -> Appender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.million", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--replaced", type=int, default=1000, help="files that each commit puts others in the place of")
    parser.add_argument("--commits", type=int, default=3, help="how many such commits")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args.files, args.replaced, args.commits)))


def measure(folder: Path, files: int, replaced: int, commits: int) -> dict[str, object]:
    """Seconds of each step, tries of the commits, and manifests that no snapshot names."""
    catalog = open_lake(folder)
    table = create_topic(catalog, NAME, {})
    for number in range(MANIFESTS):
        add_commit(table, 1, number * files // MANIFESTS, files // MANIFESTS)
        print(f"{number + 1} of {MANIFESTS} manifests made", end="\r", flush=True)
    hp, plans = Hardpack(catalog), []
    found: dict[str, object] = {"files": files, "plan_s": seconds(lambda: plans.append(hp.plan(NAME, now=T0)))}
    spark = open_session(catalog)
    session = TableSession(catalog.load_table(NAME), lambda: JvmTable(spark, f"{catalog.name}.{NAME}"))
    jvm, base, columns = session.jvm, session.base, session.columns(session.settings)
    assert base is not None
    among: Among = columns.log.among([plans[0].logs[0].partition])
    tasks, tries, took = jvm.scan_tasks(base, among), list[int](), list[float]()
    found["tasks_s"] = seconds(lambda: jvm.scan_tasks(base, among))
    found["data_files_s"] = seconds(lambda: tasks.data_files({}))
    once = Commits._commit_once

    def counted(self: Commits, trial: Any) -> SnapshotRef:
        tries.append(1)
        return once(self, trial)

    # as mypy takes methods for constants
    Commits._commit_once = counted  # type: ignore[method-assign]
    with Appender(folder, files) as other:
        for number in range(commits):
            time.sleep(EVERY / 2)
            some = tasks.only(islice(tasks, number * replaced, (number + 1) * replaced))
            new = [
                jvm.java_file(ContentFile({**file.entry, "file-path": f"{file.path}.new"}))
                for file in some.data_files({}).values()
            ]
            remove = [task.file() for task in some.values()]
            change = CommitChange(remove, new, lambda _: {}, {"hardpack.bench": f"{number}"})
            began = time.monotonic()
            jvm.commit(base, change)
            took.append(round(time.monotonic() - began, 2))
    found |= {"commit_s": took, "tries": len(tries), "appends_meanwhile": other.appended}
    table.refresh()
    named = {s.manifest_list for s in table.snapshots()}
    named |= {m.manifest_path for s in table.snapshots() for m in s.manifests(table.io)}
    there = (Path(table.location().removeprefix("file://")) / "metadata").glob("*.avro")
    found["left_behind"] = len({path.name for path in there} - {path.rpartition("/")[2] for path in named})
    found["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


if __name__ == "__main__":
    main()
