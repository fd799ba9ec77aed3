"""What a replay tells of other settings, beside real passes with those settings: python -m tests.benchmarks.what_if.

Three histories of two days, an append each half hour and a look each hour: keys drawn alike, keys by Zipf's law, and
keys of which mostly the newest come again. On one table passes run at the first ratio, and its replay tells of the
others; on tables of their own the others' passes really run. The kept snapshots are given the times of the history.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hardpack.api import Hardpack
from hardpack.demo.topic import COLUMNS, create_topic
from hardpack.operations.what_if import Outcome, WhatIf
from pyiceberg.table import Table

from tests.benchmarks.datasets import open_lake

HOUR = 3_600_000
T0 = 1_700_002_800_000
"""A whole hour."""
SETTING = "min.cleanable.dirty.ratio"
RATIOS = ("0.5", "0.2", "0.8")
LOGS = (0, 1)


def alike(rng: np.random.Generator, at: int, number: int) -> Any:
    """Keys drawn alike from 20,000."""
    return rng.integers(0, 20_000, number)


def zipf(rng: np.random.Generator, at: int, number: int) -> Any:
    """Keys of which few come often and many seldom."""
    return rng.zipf(1.3, number) % 200_000


def newest(rng: np.random.Generator, at: int, number: int) -> Any:
    """Keys near a front that moves on: new ones, and those of a short while ago again."""
    return at * number // 2 + rng.integers(-number, number // 2, number)


HISTORIES: dict[str, Callable[[np.random.Generator, int, int], Any]] = {"alike": alike, "zipf": zipf, "newest": newest}


class Lived:
    """A table whose history is lived through with real passes."""

    def __init__(self, hp: Hardpack, name: str, ratio: str, draw: Callable[..., Any], rows: int, seed: int) -> None:
        settings = {f"hardpack.{SETTING}": ratio}
        self.hp, self.name, self.table = hp, name, create_topic(hp.catalog, name, settings)
        self.draw, self.rows, self.rng = draw, rows, np.random.default_rng(seed)
        self.times: dict[int, int] = {}
        """By snapshot when it was made, by the history's clock."""
        self.passes = self.logs_cleaned = self.appended = self.written = self.worst = 0
        self.dead = self.scanned = 0.0
        self.seen = (0, 0, T0)
        """Rows and superseded ones since when."""

    def live(self, appends: int, every: int) -> Table:
        """Append each half hour, look each `every` ms, and record what happens."""
        for at in range(appends):
            now = T0 + at * HOUR // 2
            self._append(at, now)
            if now % every == 0:
                self._look(now)
        end = T0 + appends * HOUR // 2
        if end % every == 0:
            self._look(end)
        self._count(end)
        return dated(self.table.refresh(), self.times)

    def _append(self, at: int, now: int) -> None:
        before = sum(f["file_size_in_bytes"] for f in self._files())
        self.table.append(pa.concat_tables([self._rows(log, at, now) for log in LOGS]))
        self._record(now)
        self.appended += sum(f["file_size_in_bytes"] for f in self._files()) - before
        self._count(now)

    def _rows(self, log: int, at: int, now: int) -> pa.Table:
        keys = self.draw(self.rng, at, self.rows)
        return pa.table(
            {
                "partition": pa.array([log] * self.rows, pa.int32()),
                "offset": pa.array(np.arange(at * self.rows, (at + 1) * self.rows)),
                "timestamp": pa.array(np.full(self.rows, now * 1000)).cast(COLUMNS.field("timestamp").type),
                "key": pa.array([f"key-{k}".encode() for k in keys], pa.binary()),
                "value": pa.array(self.rng.integers(0, 2**60, self.rows)).cast(pa.string()),
            },
            schema=COLUMNS,
        )

    def _look(self, now: int) -> None:
        plan = self.hp.plan(self.name, now)
        for segment in self.hp.segments(self.name, now):
            if segment.part == "dirty":
                self.worst = max(self.worst, now - (segment.first_timestamp or now))
        if not plan.doing("clean"):
            return
        report = self.hp.clean(plan)
        self.passes += 1
        self.logs_cleaned += len(report.logs)
        self.written += sum(log.bytes_written for log in report.logs)
        self.table.refresh()
        self._record(now)
        self._count(now)

    def _files(self) -> list[dict[str, Any]]:
        return self.table.refresh().inspect.data_files().to_pylist()

    def _record(self, now: int) -> None:
        # somebody has just committed, so there is a current snapshot
        self.times[self.table.refresh().current_snapshot().snapshot_id] = now  # type: ignore[union-attr]

    def _count(self, now: int) -> None:
        rows, dead, since = self.seen
        self.dead += dead * (now - since)
        self.scanned += rows * (now - since)
        found = self.table.scan(selected_fields=("partition", "key")).to_arrow()
        living = found.group_by(["partition", "key"]).aggregate([]).num_rows
        self.seen = found.num_rows, found.num_rows - living, now

    def outcome(self, days: float) -> dict[str, float]:
        """What the passes did, by the names of a replay's outcome."""
        return {
            "passes_per_day": self.passes / days,
            "logs_cleaned_per_day": self.logs_cleaned / days,
            "written_per_appended": self.written / self.appended,
            "worst_lag_ms": self.worst,
            "dead_share": self.dead / self.scanned,
        }


def dated(table: Table, times: dict[int, int]) -> Table:
    """Returns a table whose snapshots have these times, by id."""
    file = Path(re.sub("^file:(//)?", "", table.metadata_location))
    metadata = json.loads(file.read_text())
    for snapshot in metadata["snapshots"]:
        snapshot["timestamp-ms"] = times[snapshot["snapshot-id"]]
    file.write_text(json.dumps(metadata))
    return table.refresh()


def compared(
    hp: Hardpack, kind: str, ratios: Sequence[str] = RATIOS, appends: int = 96, rows: int = 2000, seed: int = 1
) -> tuple[WhatIf, list[tuple[Outcome, dict[str, float]]]]:
    """Lives a history once for each ratio, and replays the first.

    Returns:
        What the replay tells, and for each ratio its outcome and what really happened.
    """
    hp.catalog.create_namespace_if_not_exists("db")
    end, names = T0 + appends * HOUR // 2, [f"db.{kind}_{seed}_{r.replace('.', '')}" for r in ratios]
    lived = []
    for name, ratio in zip(names, ratios, strict=True):
        lived.append(Lived(hp, name, ratio, HISTORIES[kind], rows, seed))
        lived[-1].live(appends, HOUR)
    told = hp.what_if(names[0], SETTING, list(ratios), HOUR, end)
    days = (end - T0) / 86_400_000
    return told, [(o, real.outcome(days)) for o, real in zip(told.outcomes, lived, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.what_if", description=__doc__)
    parser.add_argument("--appends", type=int, default=96)
    parser.add_argument("--rows", type=int, default=2000, help="of an append in each of two logs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", nargs="+", choices=HISTORIES, default=list(HISTORIES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hp = Hardpack(open_lake(Path(folder)), home=Path(folder) / "home")
        for kind in args.histories:
            told, found = compared(hp, kind, appends=args.appends, rows=args.rows, seed=args.seed)
            for outcome, real in found:
                for name, truth in real.items():
                    guess = getattr(outcome, name)
                    off = guess / truth - 1 if truth else float(guess != truth)
                    print(json.dumps({
                        "history": kind, "replayed_at": told.outcomes[0].value, "ratio": outcome.value, "measure": name,
                        "told": round(guess, 4), "real": round(truth, 4), "off": f"{off:+.1%}",
                    }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
