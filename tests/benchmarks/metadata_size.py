"""What hardpack adds to a table's metadata: python -m tests.benchmarks.metadata_size --logs 10000 --passes 200.

Every pass is of every log: it moves the checkpoint, gives new tombstones a horizon and records its report, through
the code that a pass uses. No row is cleaned and no snapshot expires. Segments are as `--segments` says before the first
pass; each pass finds one more in every log.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from hardpack.compaction.alter_states import _commit
from hardpack.compaction.report import LogReport, PassReport
from hardpack.demo.topic import create_topic
from hardpack.rules.horizons import Reach, after_clean
from hardpack.rules.model import LogState, SeenCommits, SnapshotRef
from hardpack.table.packing import PassFolder
from hardpack.table.state import (
    PASS_SUMMARY,
    PLAN_SUMMARY,
    STATE_PROPERTY,
    made_by,
    read_state,
    seen_by_reading,
    write_state,
)
from pyiceberg.table import Table

from tests.benchmarks.datasets import T0, open_lake

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.metadata_size", description=__doc__)
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=100, help="of each log")
    parser.add_argument("--passes", type=int, default=200, help="one an hour, each of all logs")
    args = parser.parse_args()
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        table = create_topic(open_lake(Path(folder)), "db.t", {})
        print(json.dumps({"before the first": _sizes(table, folder)}), flush=True)
        ends = {str(log): rng.randrange(10**9) for log in range(args.logs)}
        layouts = {
            log: [end + at * rng.randrange(1, 10**5) for at in range(args.segments)] for log, end in ends.items()
        }
        for number in range(args.passes):
            now = T0 + number * HOUR_MS
            for layout in layouts.values():
                layout.append(layout[-1] + rng.randrange(1, 10**5))
            _pass(table, {log: tuple(layout) for log, layout in layouts.items()}, now, f"{number:016}")
            if number + 1 in (1, 10, 50, args.passes):
                print(json.dumps({f"after {number + 1}": _sizes(table.refresh(), folder)}), flush=True)


def _pass(table: Table, layouts: dict[str, tuple[int, ...]], now: int, plan: str) -> None:
    """What phase one of all logs leaves in the metadata."""
    table.refresh()
    states, snapshot = read_state("db.t", table.properties), table.current_snapshot()
    seen = seen_by_reading(table, snapshot.snapshot_id) if snapshot else SeenCommits(0)
    after = {}
    for log, layout in layouts.items():
        state, end = states.get(log, LogState()), layout[-1]
        copied = Reach(state.checkpoint or layout[0], end, end, end)
        after[log] = replace(after_clean(state, copied, end + 1000, now, now + DAY_MS), layout=layout, seen=seen)
        # phase two serves what is due
        after[log] = replace(after[log], horizons=tuple(h for h in after[log].horizons if h[1] > now))
    logs = tuple(
        LogReport(
            partition=log, checkpoint_before=states.get(log, LogState()).checkpoint, checkpoint_after=end[-1],
            log_start=end[0], log_end=end[-1] + 1000, rows_before=10**6 + end[-1] % 1000, rows_after=10**6,
            bytes_before=10**8 + end[-1] % 10**6, bytes_after=10**8, superseded=end[-1] % 1000, tombstones_waiting=7,
            files_left_alone=90,
        )
        for log, end in layouts.items()
    )  # fmt: skip
    report = PassReport(
        table="db.t", phase="one", plan=plan, now=now, base=snapshot and snapshot.snapshot_id, logs=logs
    )
    folder = PassFolder.of(table)
    summary = {
        PLAN_SUMMARY: f"one:{plan}",
        PASS_SUMMARY: folder.kept(report.summary_json()),
        STATE_PROPERTY: folder.kept(write_state(after)),
    }
    at = SnapshotRef(2**62 + int(plan), (snapshot.sequence_number or 0) + 1 if snapshot else 1)
    _commit(table, write_state({log: made_by(state, at) for log, state in after.items()}), summary)


def _sizes(table: Table, folder: str) -> dict[str, int]:
    metadata = Path(table.metadata_location.removeprefix("file://"))
    passes = list(Path(folder).rglob("hardpack-passes/*"))
    return {
        "bytes of metadata.json": metadata.stat().st_size,
        "of these the state": len(table.properties.get(STATE_PROPERTY, "")),
        "snapshots": len(table.snapshots()),
        "files of long summaries": len(passes),
        "bytes of these": sum(p.stat().st_size for p in passes),
    }


if __name__ == "__main__":
    main()
