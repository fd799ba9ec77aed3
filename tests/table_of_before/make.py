"""Makes the table of a version before: run it with that version installed, `python make.py FOLDER`.

It leaves `table.tar.gz`, to be unpacked at `PLACE`, as Iceberg's metadata holds whole paths, and `left.json`, what that
version said it had left. The rows are those of `history`, which the test takes from here too.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PLACE = Path("/tmp/hardpack-table-of-0.1")
NAME = "t.before"
T0 = 1_700_000_000_000
STEPS = 4
SETTINGS = {
    "hardpack.min.cleanable.dirty.ratio": "0", "hardpack.delete.retention.ms": "1500", "hardpack.null.keys": "drop",
    "hardpack.key.filter.min.rows": "1", "hardpack.segment.bytes": "6000",
}  # fmt: skip
Rows = dict[int, list[tuple[int, bytes | None, str | None]]]


def history() -> list[Rows]:
    """Returns what was appended, by step and log: offset, key, value."""
    rng, steps, ends = random.Random(7), [], dict.fromkeys(range(3), -1)
    for step in range(STEPS):
        rows: Rows = {}
        for log in ends:
            rows[log] = []
            # keys of one log move on, so that some clean files hold none of the head's
            for _ in range(30):
                ends[log] += rng.choice((1, 1, 2))
                key = None if rng.random() < 0.05 else f"k{rng.randrange(20) + (40 * step if log == 2 else 0)}".encode()
                value = None if key and rng.random() < 0.25 else f"v{ends[log]}"
                rows[log].append((ends[log], key, value))
            ends[log] += 1
            rows[log].append((ends[log], f"end{step}".encode(), "end"))
        steps.append(rows)
    return steps


def appended(rows: Rows, at: int) -> list[dict[str, list]]:
    """Returns the columns of two files for each log: its rows, and the last one, which is the active segment."""
    parts = [{log: found[:-1] for log, found in rows.items()}, {log: found[-1:] for log, found in rows.items()}]
    return [
        {
            "partition": [log for log, found in part.items() for _ in found],
            "offset": [o for found in part.values() for o, _, _ in found],
            "timestamp": [at * 1000 for found in part.values() for _ in found],
            "key": [k for found in part.values() for _, k, _ in found],
            "value": [v for found in part.values() for _, _, v in found],
        }
        for part in parts
    ]


def main(folder: Path) -> None:
    import pyarrow as pa
    from hardpack import Hardpack
    from hardpack.demo.topic import COLUMNS, create_topic
    from pyiceberg.catalog import load_catalog

    shutil.rmtree(PLACE, ignore_errors=True)
    (PLACE / "warehouse").mkdir(parents=True)
    lake = {"type": "sql", "uri": f"sqlite:///{PLACE}/catalog.db", "warehouse": f"file://{PLACE}/warehouse"}
    catalog = load_catalog("hardpack", **lake)
    table = create_topic(catalog, NAME, SETTINGS)
    reports = []
    with Hardpack(catalog, home=PLACE / "home") as hp:
        for step, rows in enumerate(history()):
            now = T0 + 1000 * step
            for part in appended(rows, now):
                table.append(pa.table(part, schema=COLUMNS))
            reports.append(hp.clean(hp.plan(NAME, now=now)))
            if step > 1:
                reports.append(hp.expire_tombstones(NAME, now=now + 500))
        hp.pause(NAME, [1])
    table = catalog.load_table(NAME)
    rows = table.scan().to_arrow().sort_by([("partition", "ascending"), ("offset", "ascending")])
    status = subprocess.run(
        ["hardpack", "status", NAME, "--now", str(T0 + 10_000), "--json"], capture_output=True, text=True, check=True,
        env={"PATH": str(Path(sys.executable).parent), "PYICEBERG_CATALOG__HARDPACK__TYPE": "sql",
             "PYICEBERG_CATALOG__HARDPACK__URI": lake["uri"], "HOME": str(PLACE)},
    )  # fmt: skip
    left = {
        "metadata": table.metadata_location,
        "status": json.loads(status.stdout),
        "passes": [json.loads(report.summary_json()) for report in reports],
        "rows": [[r["partition"], r["offset"]] for r in rows.to_pylist()],
    }
    (folder / "left.json").write_text(json.dumps(left) + "\n")
    with tarfile.open(folder / "table.tar.gz", "w:gz") as tar:
        tar.add(PLACE / "warehouse", "warehouse", filter=lambda e: None if e.name.endswith(".crc") else e)
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
