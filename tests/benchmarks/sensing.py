"""What a look at very many tables costs: python -m tests.benchmarks.sensing --tables 1000 --logs 100.

The tables' metadata is made by this script; data files are named in it and not there. `cold` is the first look of a
process, `next_process` that of another which finds what the first kept; `unchanged` the next of the same process with
nothing new, `changed` the one after some tables got a commit. `page` is what the overview in Airflow waits for: the
first time, then, and when its last look is old; `table_page` is one table in full.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from hardpack import Hardpack
from hardpack.demo.topic import create_topic
from hardpack.operations.plan_tables import Look, PlanCache
from hardpack_airflow.table_cache import TableCache, summaries_of
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tests.benchmarks.datasets import T0, open_lake

ROWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sensing", description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--logs", type=int, default=100, help="of each table; a commit adds a file to each")
    parser.add_argument("--commits", type=int, default=2, help="to each table, before the first look")
    parser.add_argument("--changed", type=int, default=10, help="tables that get a commit before the last look")
    parser.add_argument("--rounds", type=int, default=3, help="the median counts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        catalog = open_lake(Path(folder))
        for number in range(args.tables):
            table = create_topic(catalog, f"db.t{number:05}", {})
            for commit in range(args.commits):
                add_commit(table, args.logs, commit)
            print(f"{number + 1} tables made", end="\r", flush=True)
        for turn in range(args.rounds):
            print(json.dumps({"round": turn + 1} | measure(catalog, args, args.commits + turn)), flush=True)


def measure(catalog: Catalog, args: argparse.Namespace, commit: int) -> dict[str, Any]:
    """Seconds of a cold look and of two warm ones, and the process's peak memory."""
    folder = Path(tempfile.mkdtemp())
    cache, found = PlanCache(folder / "looks.jsonl"), dict[str, Any]()
    names = [f"db.t{number:05}" for number in range(args.changed)]

    def look(now: int, cache: PlanCache = cache) -> None:
        plans = dict(cache.plans(Hardpack(catalog, memory=cache.memory), Look(["db.*"], now)))
        assert len(plans) == args.tables
        assert all(len(plan.logs) == args.logs for plan in plans.values())  # type: ignore[union-attr]  # no exception

    found["cold_s"] = seconds(lambda: look(T0))
    found["keep_s"] = seconds(cache.keep)
    found["kept_bytes"] = (folder / "looks.jsonl").stat().st_size
    found["next_process_s"] = seconds(lambda: look(T0 + 1, PlanCache(folder / "looks.jsonl")))
    found["unchanged_s"] = seconds(lambda: look(T0 + 1))
    for name in names:
        add_commit(catalog.load_table(name), args.logs, commit)
    found["changed_s"] = seconds(lambda: look(T0 + 2))
    page = _Page("bench")
    page.catalog_object = catalog
    found["page_first_s"] = seconds(lambda: summaries_of([page]))
    while page.looking:
        time.sleep(0.1)
    found["page_s"] = seconds(lambda: summaries_of([page]))
    page.looked = 0.0
    found["page_after_a_while_s"] = seconds(lambda: summaries_of([page]))
    assert len(summaries_of([page])) == args.tables
    found["table_page_s"] = seconds(lambda: page.table("db.t00000"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ratios = {f"cold_by_{name}": found["cold_s"] / found[f"{name}_s"] for name in ("unchanged", "next_process")}
    return {n: round(v, 3) for n, v in (found | ratios).items()} | {"peak_memory": peak}


class _Page(TableCache):
    """What Airflow's server keeps for the pages, over the catalog at hand."""

    catalog_object: Catalog

    def _open(self) -> Hardpack:
        return Hardpack(self.catalog_object, memory=self._memory)


def seconds(act: Callable[[], object]) -> float:
    """How long something takes."""
    started = time.monotonic()
    act()
    return time.monotonic() - started


def add_commit(table: Table, logs: int, first: int, files: int = 1) -> None:
    """Some files for each log, the next after its `first`, named in the metadata alone."""
    ids = {field.name: field.field_id for field in table.schema().fields}
    with table.transaction() as pending, pending.update_snapshot().fast_append() as append:
        for log, number in product(range(logs), range(first, first + files)):
            low, at = number * ROWS, (T0 + number * 60_000) * 1000
            append.append_data_file(
                DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"{table.location()}/data/partition={log}/{number:05}-{log:05}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(log),
                    record_count=ROWS,
                    file_size_in_bytes=36_000_000,
                    null_value_counts=dict.fromkeys(ids.values(), 0),
                    lower_bounds={ids["offset"]: _long(low), ids["timestamp"]: _long(at)},
                    upper_bounds={ids["offset"]: _long(low + ROWS - 1), ids["timestamp"]: _long(at + 59_000_000)},
                )
            )


def _long(value: int) -> bytes:
    return struct.pack("<q", value)


if __name__ == "__main__":
    main()
