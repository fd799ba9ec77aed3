"""What a pass costs on tables as sinks leave them: python -m tests.benchmarks.layouts [ROWS] [ROUNDS].

The same records lie in each layout, in as many commits. The first pass meets the table as the sink left it; then a
tenth as many records come, and a second pass. Each round has a new table of every layout, one after another in one
session that is warm; what is printed is the median of the rounds, and its ratio to that of the plain layout.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from itertools import count
from pathlib import Path

from hardpack import Hardpack
from hardpack.rules.reference.row import Row
from hardpack.spark.session import open_session
from pyiceberg.catalog import load_catalog

from tests.conftest import ROOT
from tests.layouts import LAYOUTS, MIXED, NO_TRANSACTIONS
from tests.topics import T0

LOGS, COMMITS, SHARE = 4, 8, 10
HOUR = 3_600_000


def records(rng: random.Random, start: int, number: int, at: int) -> dict[int, list[Row]]:
    """By log the rows of one commit, a tenth of them tombstones, over as many keys as there are rows."""
    return {
        log: [
            Row(start + n, b"key-%07d" % rng.randrange(number * COMMITS // 4),
                None if rng.random() < 0.1 else rng.randbytes(100), timestamp=at + n)
            for n in range(number)
        ]
        for log in range(LOGS)
    }  # fmt: skip


def one_table(hp: Hardpack, layout, name: str, rows: int, seed: int) -> list[float]:
    """Seconds of the first pass and of the second."""
    rng, took, start = random.Random(seed), [], 0
    table = layout.adopted(hp.catalog, name, min_cleanable_dirty_ratio=0, **NO_TRANSACTIONS)
    hp.adopt(name)
    for commits, share in ((COMMITS, 1), (2, SHARE)):
        number = rows // LOGS // COMMITS // share
        for _ in range(commits):
            layout.append(table.refresh(), records(rng, start, number, T0 + start))
            start += number
        plan = hp.plan(name, now=T0 + start + HOUR)
        began = time.monotonic()
        report = hp.clean(plan)
        took.append(time.monotonic() - began)
        assert sum(log.superseded for log in report.logs) > 0
    return took


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 160_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    os.environ.setdefault("HARDPACK_HOME", str(ROOT / ".hardpack"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "warehouse").mkdir()
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/warehouse"}
        catalog = load_catalog("hardpack", **properties)
        hp = Hardpack(catalog, open_session(catalog), Path(folder))
        found: dict[str, list[list[float]]] = defaultdict(list)
        names = count()
        for number in range(rounds + 1):
            for layout in (*LAYOUTS, MIXED):
                name = f"b.t{next(names)}"
                took = one_table(hp, layout, name, rows if number else rows // 10, number)
                # the first round warms the session up
                found[layout.name] += [took] if number else []
        print(f"{rows} rows of some 120 bytes, {LOGS} logs, {COMMITS} commits, then a {SHARE}th in 2; {rounds} rounds")
        plain = [statistics.median(t) for t in zip(*found[LAYOUTS[0].name], strict=True)]
        for name, times in found.items():
            medians = [statistics.median(t) for t in zip(*times, strict=True)]
            ratios = [m / p for m, p in zip(medians, plain, strict=True)]
            told = (f"{m:6.2f} s  {r:.2f} x" for m, r in zip(medians, ratios, strict=True))
            print(f"{name:45} first and second pass: {'   '.join(told)}")


if __name__ == "__main__":
    main()
