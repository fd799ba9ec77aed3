"""Hundreds of small tables that are all due, in one DAG run: python -m tests.benchmarks.many [--tables N].

Each table has 4 logs of 5 MB in four commits, made by this script; a first run cleans all of each. Airflow is a real
one on loopback with one place in the pool, so that on two cores one Spark application of two slots works at a time.
Printed are the run's seconds, the seconds of each task and its instances, and whether the rows of every table are the
reference cleaner's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hardpack.demo.topic import create_topic
from hardpack.rules.reference.cleaner import Log, LogSegment, clean
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings
from hardpack_airflow.demo.lakehouse import make_lakehouse
from hardpack_airflow.demo.local_airflow import LocalAirflow
from pyiceberg.catalog import Catalog, load_catalog

from infra.services.process import free_ports
from tests.benchmarks.company import spent_by_task
from tests.benchmarks.datasets import DataSet, build, open_lake
from tests.benchmarks.methods import NOW
from tests.conftest import ROOT

LOGS, COMMITS, ROWS = 4, 4, 65_000
"""Rows of a log: 5 MB of keys of 32 hex digits and values of 100."""
RULES = Settings.model_validate({"active.segment": "none"})
DATA = DataSet("many_tables", LOGS, LOGS * ROWS // 2, LOGS * ROWS // 2, LOGS * ROWS // 6, ROWS // COMMITS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.many", description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    args = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="hardpack-many-"))
    try:
        measure(home, args.tables)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measure(home: Path, number: int) -> None:
    """Print one line of JSON."""
    (home / "jars").symlink_to(ROOT / ".hardpack" / "jars")
    catalog = load_catalog("hardpack", **make_lakehouse(home, home))
    parts = commits_of(home / "rows")
    names = [f"many.t{n:04}" for n in range(number)]
    began = time.monotonic()
    for name in names:
        table = create_topic(catalog, name, {"hardpack.active.segment": "none"})
        for part in parts:
            table.append(part)
    size = int(sum(table.inspect.files()["file_size_in_bytes"].to_pylist()))
    print(f"{number} tables of {size:,} bytes made in {time.monotonic() - began:.0f} s", flush=True)
    airflow = LocalAirflow(home, free_ports(1)[0], {"schedule": ""}, home)
    try:
        airflow.start()
        airflow.prepare("hardpack", paused=False)
        print(json.dumps(one_run(airflow)), flush=True)
    finally:
        airflow.stop()
    right = expected(parts)
    wrong = [name for name in names if left(catalog, name) != right]
    print(f"{number - len(wrong)} of {number} tables hold the reference cleaner's rows")
    if wrong:
        raise SystemExit(f"not the reference cleaner's rows: {', '.join(wrong[:10])}")


def commits_of(folder: Path) -> list[pa.Table]:
    """Rows of all logs, a table for each commit."""
    folder.mkdir()
    build(DATA, folder)
    table = open_lake(folder).load_table(f"bench.{DATA.name}")
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    rows = pa.concat_tables([pq.ParquetFile(file).read() for file in files]).sort_by("offset")
    each = len(rows) // COMMITS
    return [rows.slice(n * each, each) for n in range(COMMITS)]


def one_run(airflow: LocalAirflow) -> dict[str, Any]:
    """What a run over all tables took."""
    began = time.monotonic()
    run = airflow.trigger("hardpack", {})
    states = dict(airflow.watch("hardpack", run, timeout=3600))
    seconds = time.monotonic() - began
    return {"state": states[""], "seconds": round(seconds), "seconds and instances": spent_by_task(airflow, run)}


def expected(parts: Sequence[pa.Table]) -> dict[int, list[int]]:
    """Offsets that the reference cleaner leaves of each log."""
    rows = duckdb.from_arrow(pa.concat_tables(parts))
    kept = {}
    for log in range(LOGS):
        found = rows.filter(f"partition = {log}").project('"offset", key, value is null').order("1").fetchall()
        segment = LogSegment(0, tuple(Row(o, k, None if gone else b"") for o, k, gone in found))
        outcome = clean(Log((segment,), log_start=0), RULES, NOW)
        kept[log] = [row.offset for row in outcome.log.rows]
    return kept


def left(catalog: Catalog, name: str) -> dict[int, list[int]]:
    """Offsets of each log of a table, in order."""
    rows = catalog.load_table(name).scan(selected_fields=("partition", "offset")).to_arrow()
    return dict(duckdb.from_arrow(rows).aggregate('partition, list("offset" order by "offset")').fetchall())


if __name__ == "__main__":
    main()
