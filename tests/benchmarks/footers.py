"""What a look costs at files without bounds, the first time and after: python -m tests.benchmarks.footers [FILES].

One table in Redpanda's shape, as brokers before June 2026 left it: manifests tell rows and sizes alone. Each look is a
process of its own, so that nothing is remembered but what lies beside the table; a last one in a process that has
looked before. The same files with bounds in their manifests are looked at for comparison.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from tests.layouts import HOURLY

FILES, LOGS, PER_COMMIT = 100_000, 64, 10_000
HOUR_US, T0_US = 3_600_000_000, 1_600_000_000_000_000

LOOK = """
import json, sys, time
from pyiceberg.catalog import load_catalog
from hardpack.table.log_views import read_logs
from hardpack.table.manifest_cache import ManifestCache
from tests.layouts import HOURLY, mapped
table = load_catalog("hardpack", **json.loads(sys.argv[1])).load_table(sys.argv[2])
cache, settings = ManifestCache(), mapped(HOURLY)
for _ in range(int(sys.argv[3])):
    started = time.monotonic()
    views = read_logs(table, settings, memory=cache)
    seconds = time.monotonic() - started
print(json.dumps([round(seconds, 1), sum(len(v.files) for v in views), sum(bool(v.trouble) for v in views)]))
"""


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "warehouse").mkdir()
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/warehouse"}
        catalog = load_catalog("hardpack", **properties)
        silent, spoken = HOURLY.create(catalog, "b.silent"), HOURLY.create(catalog, "b.spoken")
        started = time.monotonic()
        for first in range(0, files, PER_COMMIT):
            listed = [written(Path(folder), silent, number) for number in range(first, min(files, first + PER_COMMIT))]
            for table, bounds in ((silent, False), (spoken, True)):
                add(table.refresh(), listed, bounds)
        size = sum(size for _, size, _ in listed) // len(listed)
        print(f"{files} files of 2 rows and {size} bytes, {LOGS} logs, {-(-files // PER_COMMIT)} commits; "
              f"made in {time.monotonic() - started:.0f} s")  # fmt: skip
        for what, table, looks in (
            ("with bounds", "b.spoken", 1), ("without, first look", "b.silent", 1),
            ("without, later look", "b.silent", 1), ("without, same process again", "b.silent", 2),
        ):  # fmt: skip
            seconds, seen, troubled = look(properties, table, looks)
            print(f"{what}: {seconds} s, {seen} files, {troubled} logs in trouble")


def look(properties, table, looks):
    done = subprocess.run(
        [sys.executable, "-c", LOOK, json.dumps(properties), table, str(looks)], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def written(folder, table, number):
    """A file of one log, written as no Iceberg library would: path, size, and its bounds by field id."""
    log, at = number % LOGS, number // LOGS
    path, stamp = folder / f"{number}.parquet", T0_US + at * HOUR_US // 100
    rows = [
        {
            "redpanda": {"partition": log, "offset": 2 * at + n, "timestamp": stamp, "key": b"k%d" % n},
            "value": b"v",
        }
        for n in range(2)
    ]  # fmt: skip
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    numbers = {
        name: table.schema().find_field(f"redpanda.{name}").field_id for name in ("partition", "offset", "timestamp")
    }
    low = {
        numbers["partition"]: log.to_bytes(4, "little"), numbers["offset"]: (2 * at).to_bytes(8, "little"),
        numbers["timestamp"]: stamp.to_bytes(8, "little"),
    }  # fmt: skip
    high = low | {numbers["offset"]: (2 * at + 1).to_bytes(8, "little")}
    return path, path.stat().st_size, (stamp // HOUR_US, low, high)


def add(table, listed, bounds):
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for path, size, (hour, low, high) in listed:
            told = {"lower_bounds": low, "upper_bounds": high, "null_value_counts": dict.fromkeys(low, 0)}
            file = DataFile.from_args(
                content=DataFileContent.DATA, file_path=f"file://{path}", file_format=FileFormat.PARQUET,
                partition=Record(hour), record_count=2, file_size_in_bytes=size, **(told if bounds else {}),
            )  # fmt: skip
            file.spec_id = 0
            snapshot.append_data_file(file)


if __name__ == "__main__":
    main()
