"""Methods side by side on the same files in one run: python -m tests.benchmarks --sets uniform_half --rounds 3."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
from hardpack import Hardpack
from hardpack.home import default_home
from hardpack.rules.reference.cleaner import Log, LogSegment, clean
from hardpack.rules.reference.row import Row
from hardpack.rules.settings import Settings

from tests.benchmarks import datasets
from tests.benchmarks.measure import Cost, cost_of
from tests.benchmarks.methods import METHODS, NOW, PREPARE, KafkaRun, Run, kafka_cleaner

OWN_METHODS = {
    "uniform_half": "hardpack;row_number;MERGE;DELETE;bin-pack;DuckDB",
    "local_5": "hardpack;hardpack, keys filtered before;row_number;MERGE",
    "local_tail_4": "hardpack;hardpack, keys filtered before",
    "uniform_5": "hardpack;hardpack, deletion vectors",
    "keys_100m": "hardpack",
}
"""What a data set is measured with when nothing else is asked for; others with hardpack and row_number."""
QUICK: dict[str, Any] = {"sets": "uniform_half,local_5", "scale": 0.05, "rounds": 1}
"""What `make bench-quick` takes."""
TERABYTE = 10**12
RULES = Settings.model_validate({"min.cleanable.dirty.ratio": 0, "active.segment": "none"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sets", default="uniform_half", help=f"of {', '.join(datasets.ALL)}; several with commas")
    parser.add_argument(
        "--methods", help="how their names begin, with semicolons between, else each set's own: " + "; ".join(METHODS),
    )  # fmt: skip
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a turn is stopped")
    parser.add_argument("--scale", type=float, default=1.0, help="times the rows of each data set")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each method; the median counts")
    parser.add_argument("--unchecked", action="store_true", help="do not compare with the reference cleaner")
    parser.add_argument("--kafka", action="store_true", help="Kafka's own cleaner on log 0 as well")
    parser.add_argument("--quick", action="store_true", help="small data sets, one round")
    parser.add_argument("--out", type=Path, help="where the figures are stored as JSON")
    args = parser.parse_args()
    if args.quick:
        args.sets, args.scale, args.rounds, args.kafka = QUICK["sets"], QUICK["scale"], QUICK["rounds"], True
    out = args.out or default_home() / "bench" / "results.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HARDPACK_DRIVER_MEMORY", "8g")
    lake = default_home() / "bench" / "lake"
    hp = Hardpack(datasets.open_lake(lake), home=default_home() / "bench" / "home")
    results = []
    with tempfile.TemporaryDirectory(dir=lake) as scratch:
        for name in args.sets.split(","):
            data = datasets.ALL[name] if args.scale == 1 else datasets.ALL[name].scaled(args.scale)
            results.append(bench(hp, data, lake, Path(scratch), args))
            out.write_text(json.dumps({"machine": machine(), "sets": results}, indent=1))
    print(f"figures: {out}; {', '.join(f'{name} {value}' for name, value in machine().items())}")
    if wrong := [f"{r['data']['name']}, {m}" for r in results for m, c in r["medians"].items() if c["wrong"]]:
        sys.exit(f"not the reference cleaner's rows: {'; '.join(wrong)}")


def bench(hp: Hardpack, data: datasets.DataSet, lake: Path, scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    """All methods in turn, so many rounds, each on a fresh copy of the table; then the table of medians."""
    metadata = datasets.build(data, lake)
    right = None if args.unchecked else expected(hp, data, metadata, lake)
    costs: dict[str, list[Cost]] = {}
    sizes: dict[str, list[int]] = {}
    size = sum(Path(f).stat().st_size for f in Run(hp, datasets.copy_of(metadata, lake, "run"), data, scratch).files)
    wrong: dict[str, str] = {}
    cleaned: list[KafkaRun] = []
    methods = chosen(args.methods or OWN_METHODS.get(data.name.partition("_x")[0], "hardpack;row_number"))
    for turn in range(args.rounds):
        for method in methods:
            if method in costs and costs[method][-1].failure:
                continue
            run = Run(hp, datasets.copy_of(metadata, lake, "run"), data, scratch)
            PREPARE.get(method, lambda run: None)(run)
            base = set(run.folder.rglob("*"))
            into_page_cache(run.files)
            with stopped_after(hp, args.limit):
                cost = cost_of(partial(METHODS[method], run))
            costs.setdefault(method, []).append(cost)
            files = scratch.glob("*.parquet") if "DuckDB" in method else run.folder.rglob("*")
            made = [f for f in files if f.is_file() and f not in base]
            sizes.setdefault(method, []).append(sum(f.stat().st_size for f in made))
            if right and not cost.failure and "drops nothing" not in method:
                rows = duckdb.read_parquet([str(f) for f in made]) if "DuckDB" in method else run.rows()
                if fingerprint(rows) != right:
                    wrong[method] = "its rows are not the reference cleaner's"
            print(
                f"{data.name} round {turn + 1} {method}: {cost.seconds:.1f} s, {sizes[method][-1] / 1e6:.1f} MB "
                f"{cost.failure}",
                flush=True,
            )
            for file in made:
                file.unlink(missing_ok=True)
        if args.kafka:
            cleaned.append(kafka_cleaner(Run(hp, datasets.copy_of(metadata, lake, "run"), data, scratch)))
            print(f"{data.name} round {turn + 1} Kafka: {cleaned[-1].seconds:.1f} s", flush=True)
    # one turn, so that its seconds and its CPU seconds belong together
    kafka = asdict(sorted(cleaned, key=lambda one: one.cpu_seconds)[len(cleaned) // 2]) if cleaned else None
    table = {
        m: _medians(c) | {"data_files": statistics.median(sizes[m]), "wrong": wrong.get(m, "")}
        for m, c in costs.items()
    }
    show(data, table, kafka, size)
    turns = {m: [cost.as_dict() for cost in c] for m, c in costs.items()}
    return {"data": asdict(data), "rounds": args.rounds, "medians": table, "turns": turns, "kafka": kafka}


@contextmanager
def stopped_after(hp: Hardpack, seconds: float) -> Iterator[None]:
    """Cancel what Spark works on when it takes too long; the turn then ends as a failure."""
    timer = threading.Timer(seconds, lambda: hp.spark.sparkContext.cancelAllJobs())
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def into_page_cache(files: Iterable[str]) -> None:
    """Read the files once, else a method pays for what the one before it has pushed out of memory."""
    for path in files:
        with Path(path).open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def expected(hp: Hardpack, data: datasets.DataSet, metadata: str, lake: Path) -> str:
    """Fingerprint of what the reference cleaner leaves, worked out once per data set."""
    known = lake / f"{data.name}.expected.json"
    if known.exists() and (found := json.loads(known.read_text()))["metadata"] == metadata:
        return str(found["fingerprint"])
    files = Run(hp, datasets.copy_of(metadata, lake, "run"), data, lake).files
    digest = hashlib.sha256()
    for log in range(data.logs):
        with duckdb.connect() as db:
            query = f'select "offset", key, value is null from read_parquet({files}) where partition = {log} order by 1'
            rows = tuple(Row(o, k, None if gone else b"") for o, k, gone in _stream(db.sql(query)))
        outcome = clean(Log((LogSegment(0, rows),), checkpoint=data.tail // data.logs, log_start=0), RULES, NOW)
        _add(digest, log, [row.offset for row in outcome.log.rows])
        print(f"{data.name}: reference cleaner, log {log}", end="\r", flush=True)
    known.write_text(json.dumps({"metadata": metadata, "fingerprint": digest.hexdigest()}))
    return digest.hexdigest()


def _stream(relation: Any) -> Any:
    for batch in relation.to_arrow_reader(100_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _add(digest: Any, log: int, offsets: list[int]) -> None:
    digest.update(f"{log}:{len(offsets)}:".encode())
    digest.update(",".join(map(str, offsets)).encode())


def fingerprint(rows: Any) -> str:
    """SHA-256 of the offsets of every log, in order; the rows are a relation or Arrow table named in the query."""
    digest = hashlib.sha256()
    found = duckdb.sql('select partition, "offset" from rows order by all').fetchnumpy()
    logs, starts = np.unique(found["partition"], return_index=True)
    for log, offsets in zip(logs, np.split(found["offset"], starts[1:]), strict=True):
        _add(digest, int(log), offsets.tolist())
    return digest.hexdigest()


def chosen(names: str) -> list[str]:
    """The methods whose names begin so; `hardpack` alone is the one of that name."""
    wanted = [name.strip() for name in names.split(";")]
    return [m for m in METHODS if m in wanted or any(m.startswith(w) and w not in METHODS for w in wanted)]


def _medians(costs: list[Cost]) -> dict[str, Any]:
    done = [c for c in costs if not c.failure]
    if not done:
        return {"failure": costs[0].failure}
    names = ("seconds", "cpu_seconds", "read", "written", "peak_memory")
    return {n: statistics.median(getattr(c, n) for c in done) for n in names} | {"first": costs[0].seconds}


def show(data: datasets.DataSet, table: dict[str, Any], kafka: dict[str, Any] | None, size: int) -> None:
    rows = data.tail + data.head
    head = size * data.head / rows
    own = table.get("hardpack", {}).get("seconds")
    print(f"\n{data.name}: {data.tail:,} clean and {data.head:,} head rows, {data.logs} logs, medians")
    heads = (
        "method", "seconds", "ratio", "first turn", "CPU s", "rows per core-s", "core-s per TB", "read GB",
        "written GB", "data files MB", "written ÷ head", "peak GB",
    )  # fmt: skip
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for method, m in table.items():
        if "failure" in m:
            print(f"| {method} | failed: {m['failure']} | | | | | | | | | | |")
            continue
        ratio = f"{m['seconds'] / own:.2f}" if own else ""
        name = f"{method} WRONG: {m['wrong']}" if m["wrong"] else method
        print(
            f"| {name} | {m['seconds']:.1f} | {ratio} | {m['first']:.1f} "
            f"| {m['cpu_seconds']:.1f} | {rows / m['cpu_seconds'] / 1e3:,.0f} k "
            f"| {m['cpu_seconds'] / size * TERABYTE:,.0f} | {m['read'] / 1e9:.2f} "
            f"| {m['written'] / 1e9:.2f} | {m['data_files'] / 1e6:,.1f} | {m['data_files'] / head:.2f} "
            f"| {m['peak_memory'] / 1e9:.1f} |"
        )
    if kafka:
        print(
            f"| Kafka's Cleaner, log 0, one thread | {kafka['seconds']:.1f} | | | {kafka['cpu_seconds']:.1f} "
            f"| {kafka['rows'] / kafka['cpu_seconds'] / 1e3:,.0f} k "
            f"| {kafka['cpu_seconds'] * rows / kafka['rows'] / size * TERABYTE:,.0f} | | | | | |"
        )
    print(flush=True)


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    import pyspark

    return {
        "cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "spark": pyspark.__version__,
        "duckdb": duckdb.__version__,
        "driver_memory": os.environ.get("HARDPACK_DRIVER_MEMORY"),
        "free_disk": shutil.disk_usage("/").free,
    }


if __name__ == "__main__":
    main()
