"""One and two workers of a Spark cluster on loopback, tables of several sizes: python -m tests.benchmarks.cluster.

Prints seconds, tasks by executor, and the peak memory of the driver alone, JVM and Python together.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from hardpack import Hardpack
from hardpack.home import default_home

from infra.services.cluster import Cluster
from tests.benchmarks import datasets
from tests.benchmarks.measure import cost_of
from tests.benchmarks.methods import Run, hardpack

LAKE = default_home() / "bench" / "lake"


def data_set(name: str, scale: float) -> datasets.DataSet:
    return datasets.ALL[name] if scale == 1 else datasets.ALL[name].scaled(scale)


def one(name: str, scale: float, rounds: int) -> None:
    """In a process of its own: so many passes, each over a fresh copy of the table's metadata."""
    hp = Hardpack(datasets.open_lake(LAKE), home=default_home() / "bench" / "home")
    data = data_set(name, scale)
    metadata = datasets.build(data, LAKE)
    costs = []
    with tempfile.TemporaryDirectory(dir=LAKE) as scratch:
        for _ in range(rounds):
            run = Run(hp, datasets.copy_of(metadata, LAKE, "cluster"), data, Path(scratch))
            before = set(run.folder.rglob("*"))
            costs.append(cost_of(partial(hardpack, run)).as_dict())
            for file in set(run.folder.rglob("*")) - before:
                file.unlink(missing_ok=True)
    hp.spark.stop()
    print(json.dumps(costs))


def measured(name: str, scale: float, rounds: int, workers: int) -> tuple[list[dict[str, float]], Counter[str]]:
    """The costs of the passes on so many workers of one core, and the tasks by executor."""
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), workers, cores=1, memory="3g") as cluster:
        log = Path(folder, "events")
        log.mkdir()
        conf = {
            "spark.executor.memory": "2g", "spark.eventLog.enabled": "true", "spark.eventLog.dir": log.as_uri(),
            "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        }  # fmt: skip
        given = " ".join(f"--conf {key}={value}" for key, value in conf.items())
        done = subprocess.run(
            [
                sys.executable, "-m", "tests.benchmarks.cluster", "--set", name, "--one", str(scale),
                "--rounds", str(rounds),
            ],
            env={**os.environ, "HARDPACK_SPARK_MASTER": cluster.url, "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        tasks: Counter[str] = Counter()
        for file in log.iterdir():
            for line in file.read_text().splitlines():
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd":
                    tasks[event["Task Info"]["Executor ID"]] += 1
    return json.loads(done.stdout.splitlines()[-1]), tasks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cluster", description=__doc__)
    parser.add_argument("--set", default="uniform_half", help=f"one of {', '.join(datasets.ALL)}")
    parser.add_argument("--scales", default="0.05,0.25,1", help="times the rows of the set, with commas between")
    parser.add_argument("--rounds", type=int, default=3, help="passes of each; the median counts")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.set, args.one, args.rounds)
        return
    heads = ("rows", "files MB", "workers", "seconds", "first pass", "speed-up", "tasks by executor", "driver peak MB")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for scale in map(float, args.scales.split(",")):
        data, alone = data_set(args.set, scale), 0.0
        for workers in (1, 2):
            costs, tasks = measured(args.set, scale, args.rounds, workers)
            seconds = statistics.median(c["seconds"] for c in costs)
            alone = alone or seconds
            spread = ", ".join(str(number) for _, number in sorted(tasks.items()))
            size = sum(f.stat().st_size for f in (LAKE / "warehouse").rglob(f"*{data.name}/**/*.parquet"))
            cells = (
                f"{data.tail + data.head:,}", f"{size / 1e6:,.0f}", workers, f"{seconds:.1f}",
                f"{costs[0]['seconds']:.1f}", f"{alone / seconds:.2f}", spread,
                f"{max(c['peak_memory'] for c in costs) / 1e6:,.0f}",
            )  # fmt: skip
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
