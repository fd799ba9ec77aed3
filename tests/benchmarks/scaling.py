"""What a pass takes on N slots, predicted from Spark's event logs: python -m tests.benchmarks.scaling.

A pass is made of serial parts, in which no task runs, and of stages, whose tasks are spread over the slots. Both are
read from the event log of a warm pass on one slot. The model is held against passes on two and four slots of this
machine. From two sizes of one data set, 1 and 4 times its rows, serial parts are continued by a straight line, and
stages by as many tasks of the same lengths as the rows make. So it says nothing of a network or of a slower storage.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

from hardpack import Hardpack
from hardpack.home import default_home

from tests.benchmarks import datasets
from tests.benchmarks.__main__ import into_page_cache
from tests.benchmarks.cluster import data_set
from tests.benchmarks.methods import Run, hardpack

LAKE = default_home() / "bench" / "lake"
TERABYTE = 10**12
LEAST_SHOWN = 0.05
"""Seconds of a serial part that is worth a line."""


@dataclass(frozen=True)
class PassProfile:
    """What one pass was made of, in seconds."""

    rows: int
    bytes: int
    """The size of the data files of the table."""
    serial: Mapping[str, float]
    """Time in which no task ran, by what Spark was asked for next."""
    stages: Mapping[str, Sequence[float]]
    """Each task's time, by what Spark was asked for."""

    def on(self, slots: int) -> float:
        """Predicts the pass on so many slots."""
        return sum(self.serial.values()) + sum(makespan(tasks, slots) for tasks in self.stages.values())


def makespan(tasks: Iterable[float], slots: int) -> float:
    """Time until the last of some tasks ends, when each free slot takes the next one, the longest first."""
    busy = [0.0] * slots
    for task in sorted(tasks, reverse=True):
        heapq.heapreplace(busy, busy[0] + task)
    return max(busy)


def profile_of(events: Iterable[Mapping[str, Any]], began: float, ended: float, rows: int, size: int) -> PassProfile:
    """Reads a pass from Spark's events.

    Args:
        events: of the application, as its event log has them.
        began: when the pass began, ms since the epoch.
        ended: when it ended.
        rows: of the table.
        size: bytes of its data files.
    """
    asked: dict[int, str] = {}
    spans: list[tuple[float, float, str]] = []
    for event in events:
        if event["Event"] == "SparkListenerJobStart":
            for stage in event["Stage Infos"]:
                asked.setdefault(stage["Stage ID"], _short(stage["Stage Name"]))
        elif event["Event"] == "SparkListenerTaskEnd":
            info = event["Task Info"]
            if began <= info["Launch Time"] <= ended:
                spans.append((info["Launch Time"], info["Finish Time"], asked[event["Stage ID"]]))
    serial: dict[str, float] = defaultdict(float)
    stages: dict[str, list[float]] = defaultdict(list)
    busy_to = began
    for start, end, name in sorted(spans):
        stages[name].append((end - start) / 1000)
        if start > busy_to:
            serial[f"before {name}"] += (start - busy_to) / 1000
        busy_to = max(busy_to, end)
    serial["after the last task"] = (ended - busy_to) / 1000
    return PassProfile(rows, size, dict(serial), dict(stages))


def _short(stage: str) -> str:
    """Returns the name of a stage without the folder of the file that asked for it."""
    what, at, place = stage.partition(" at ")
    return f"{what}{at}{place.rpartition('/')[2]}"


def continued(one: PassProfile, larger: PassProfile, size: int) -> PassProfile:
    """Continues two profiles of one data set to more bytes.

    Args:
        one: of the smaller table.
        larger: of the larger one.
        size: bytes of the table that nobody has measured.
    """
    by = (size - one.bytes) / (larger.bytes - one.bytes)
    serial = {}
    for name in one.serial.keys() | larger.serial.keys():
        low, high = one.serial.get(name, 0.0), larger.serial.get(name, 0.0)
        serial[name] = max(0.0, low + by * (high - low))
    times = size / larger.bytes
    stages = {name: _as_many(tasks, times) for name, tasks in larger.stages.items()}
    return PassProfile(round(larger.rows * times), size, serial, stages)


def _as_many(tasks: Sequence[float], times: float) -> list[float]:
    return list(islice(cycle(tasks), round(len(tasks) * times)))


def one(scale: float, rounds: int) -> None:
    """In a process of its own: so many passes; prints when the last one began and ended, ms, and all seconds."""
    hp = Hardpack(datasets.open_lake(LAKE), home=default_home() / "bench" / "home")
    data = data_set("uniform_half", scale)
    metadata = datasets.build(data, LAKE)
    seconds: list[float] = []
    began, ended, size = 0.0, 0.0, 0
    with tempfile.TemporaryDirectory(dir=LAKE) as scratch:
        for _ in range(rounds):
            run = Run(hp, datasets.copy_of(metadata, LAKE, "scaling"), data, Path(scratch))
            before = set(run.folder.rglob("*"))
            into_page_cache(run.files)
            size = sum(Path(file).stat().st_size for file in run.files)
            began = time.time() * 1000
            hardpack(run)
            ended = time.time() * 1000
            seconds.append((ended - began) / 1000)
            for file in set(run.folder.rglob("*")) - before:
                file.unlink(missing_ok=True)
    hp.spark.stop()
    told = {"began": began, "ended": ended, "seconds": seconds, "rows": data.tail + data.head, "bytes": size}
    print(json.dumps(told))


def measured(scale: float, slots: int, rounds: int) -> tuple[PassProfile, list[float]]:
    """The last of some passes on so many slots, and the seconds of those that were warm."""
    with tempfile.TemporaryDirectory() as folder:
        conf = {
            "spark.eventLog.enabled": "true", "spark.eventLog.dir": Path(folder).as_uri(),
            "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        }  # fmt: skip
        given = " ".join(f"--conf {key}={value}" for key, value in conf.items())
        master = {"HARDPACK_SPARK_MASTER": f"local[{slots}]", "HARDPACK_DRIVER_MEMORY": "8g"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.scaling", "--one", str(scale), "--rounds", str(rounds)],
            env={**os.environ, **master, "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
        lines = chain.from_iterable(file.read_text().splitlines() for file in Path(folder).iterdir())
        profile = profile_of(map(json.loads, lines), told["began"], told["ended"], told["rows"], told["bytes"])
    return profile, told["seconds"][1:]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scaling", description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="times 20 M rows; the larger table has four times these")
    parser.add_argument("--rounds", type=int, default=3, help="passes of each; the first warms up")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.one, args.rounds)
        return
    small, alone = measured(args.scale, 1, args.rounds)
    for slots in (1, 2, 4):
        seconds = alone if slots == 1 else measured(args.scale, slots, args.rounds)[1]
        middle, told = statistics.median(seconds), small.on(slots)
        print(f"{small.rows:,} rows, {slots} slots: predicted {told:.1f} s, measured {middle:.1f} s", flush=True)
    large, alone = measured(args.scale * 4, 1, args.rounds)
    print(f"{large.rows:,} rows, 1 slot: predicted {large.on(1):.1f} s, measured {statistics.median(alone):.1f} s")
    show_serial(small, large)
    for terabytes in (1, 10, 100):
        show_large(continued(small, large, terabytes * TERABYTE), terabytes)


def show_serial(small: PassProfile, large: PassProfile) -> None:
    """Print the time of each serial part in both tables."""
    for name in sorted(small.serial.keys() | large.serial.keys(), key=lambda n: -large.serial.get(n, 0.0)):
        times = [profile.serial.get(name, 0.0) for profile in (small, large)]
        if max(times) >= LEAST_SHOWN:
            print(f"  serial {name}: {times[0]:.2f} s, {times[1]:.2f} s")


def show_large(pass_: PassProfile, terabytes: int) -> None:
    """Print what a table that nobody has measured takes."""
    tasks = sum(map(sum, pass_.stages.values()))
    parts = [f"{slots} slots {pass_.on(slots):,.0f} s" for slots in (1, 10, 100, 1000)]
    print(
        f"{terabytes} TB, {pass_.rows:,} rows: {tasks / 3600:,.1f} core-hours in tasks, "
        f"{sum(pass_.serial.values()):,.0f} s serial; {', '.join(parts)}; "
        f"100 slots are {pass_.on(1) / pass_.on(100):.0f} × one"
    )


if __name__ == "__main__":
    main()
