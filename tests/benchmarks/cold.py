"""What a verb takes from shell to prompt on a small table: python -m tests.benchmarks.cold [--rounds N] [--large].

Each turn is a process of its own on a table of its own; all tables have the same 8,000 rows in 4 logs and 16 files. The
methods take turns; what is printed is the median, all turns, and the ratio to `hardpack clean`. Beside hardpack's
verbs stands what a user would write instead: a PySpark script that bin-packs the table, and one that keeps the newest
row of each key by `row_number` and INSERT OVERWRITE. Neither checks anything.

With `--large` it is the data set *uniform half-dirty*, 20 M rows: `hardpack clean` as a process of its own, in turns
with a pass in a process that has made one before.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

from hardpack import Hardpack
from hardpack.demo.topic import create_topic
from hardpack.home import default_home
from hardpack_airflow.demo.lakehouse import make_lakehouse
from pyiceberg.catalog import load_catalog

from tests.benchmarks import datasets
from tests.benchmarks.__main__ import fingerprint, into_page_cache
from tests.benchmarks.methods import NOW
from tests.conftest import ROOT
from tests.topics import append, row

LOGS, COMMITS, ROWS, KEYS = 4, 4, 500, 800
SCRIPT = """
import sys
from pyspark.sql import SparkSession
lake, jars, table, statement = sys.argv[1:]
conf = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.jars": jars,
        "spark.sql.catalog.hardpack": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.hardpack.type": "jdbc",
        "spark.sql.catalog.hardpack.uri": f"jdbc:sqlite:{lake}/catalog.db",
        "spark.sql.catalog.hardpack.warehouse": f"file://{lake}/warehouse",
        "spark.sql.catalog.hardpack.jdbc.schema-version": "V1", "spark.sql.shuffle.partitions": "8",
        "spark.sql.sources.partitionOverwriteMode": "dynamic"}
spark = SparkSession.builder.config(map=conf).getOrCreate()
spark.sql(statement.format(table=table)).collect()
"""
BIN_PACK = (
    "call hardpack.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
)  # fmt: skip
NEWEST = (
    "insert overwrite hardpack.{table} select partition, `offset`, timestamp, key, value from (select *, row_number() "
    "over (partition by partition, key order by `offset` desc) as n from hardpack.{table}) where n = 1"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cold", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="20 M rows, cold against warm")
    args = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="hardpack-cold-"))
    try:
        (measure_large if args.large else measure)(home, args.rounds)
    finally:
        shutil.rmtree(home)


def measure(home: Path, rounds: int) -> None:
    """Print a line for each method."""
    real = ROOT / ".hardpack" / "jars"
    (home / "jars").symlink_to(real)
    bare = home / "bare"
    (bare / "jars").mkdir(parents=True)
    jars = sorted(real.glob("*.jar"))
    for jar in jars:
        (bare / "jars" / jar.name).symlink_to(jar)
    properties = make_lakehouse(home, home)
    catalog, names = load_catalog("hardpack", **properties), (f"cold.t{number:03}" for number in count())
    own = os.environ | {"HARDPACK_HOME": str(home), "PYICEBERG_HOME": str(home)}
    script = [sys.executable, "-c", SCRIPT, str(home / "lake"), ",".join(map(str, jars))]
    verb = str(Path(sys.executable).with_name("hardpack"))
    methods: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
        "hardpack clean": ([verb, "clean", "{table}"], own),
        "hardpack clean, no archive of classes": ([verb, "clean", "{table}"], own | {"HARDPACK_HOME": str(bare)}),
        "hardpack verify": ([verb, "verify", "{table}"], own),
        "hardpack expire-tombstones, nothing due": ([verb, "expire-tombstones", "{table}"], own),
        "hardpack plan": ([verb, "plan", "{table}"], own),
        "PySpark: bin-pack": ([*script, "{table}", BIN_PACK], own),
        "PySpark: row_number, INSERT OVERWRITE": ([*script, "{table}", NEWEST], own),
    }
    took: dict[str, list[float]] = defaultdict(list)
    size = 0
    for _ in range(rounds):
        cleaned = ""
        for method, (command, environment) in methods.items():
            name = cleaned if "verify" in method else next(names)
            size = make_table(catalog, name) if name != cleaned else size
            cleaned = name if method == "hardpack clean" else cleaned
            argv = [name if part == "{table}" else part for part in command]
            began = time.monotonic()
            subprocess.run(argv, env=environment, cwd=home, check=True, capture_output=True)
            took[method].append(time.monotonic() - began)
    print(f"{LOGS * COMMITS * ROWS:,} rows, {LOGS * COMMITS} files, {size:,} bytes; medians of {rounds} turns")
    base = statistics.median(took["hardpack clean"])
    for method, seconds in took.items():
        middle = statistics.median(seconds)
        print(f"{middle:6.1f} s {middle / base:5.2f} ×  {method}  ({', '.join(f'{s:.1f}' for s in seconds)})")


def measure_large(home: Path, rounds: int) -> None:
    """Print a line for the cold passes and one for the warm ones."""
    (home / "jars").symlink_to(ROOT / ".hardpack" / "jars")
    own = os.environ | {"HARDPACK_HOME": str(home), "PYICEBERG_HOME": str(home), "HARDPACK_DRIVER_MEMORY": "8g"}
    os.environ.update(own)
    metadata = datasets.build(datasets.UNIFORM, default_home() / "bench" / "lake")
    catalog = load_catalog("hardpack", **make_lakehouse(home, home))
    catalog.create_namespace_if_not_exists("cold")
    verb, hp = str(Path(sys.executable).with_name("hardpack")), Hardpack(catalog, home=home)
    took: dict[str, list[float]] = defaultdict(list)

    def turn(method: str, number: int, work: Callable[[str], object]) -> None:
        name = f"cold.{method}{number}"
        table = catalog.register_table(name, metadata)
        folder = Path(table.location().removeprefix("file://")) / "data"
        base = set(folder.rglob("*"))
        into_page_cache([task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()])
        began = time.monotonic()
        work(name)
        took[method].append(time.monotonic() - began)
        left = catalog.load_table(name).scan(selected_fields=("partition", "offset")).to_arrow()
        kept.add(fingerprint(left))
        for file in set(folder.rglob("*")) - base:
            file.unlink()

    def cold(name: str) -> None:
        command = [verb, "clean", name, "--force", "--now", str(NOW)]
        subprocess.run(command, env=own, cwd=home, check=True, capture_output=True)

    kept: set[str] = set()
    for number in range(rounds + 1):
        if number:
            turn("cold", number, cold)
        turn("warm", number, lambda name: hp.clean(hp.plan(name, now=NOW, force=True)))
    if len(kept) > 1:
        sys.exit("the passes left different rows")
    first, *later = took["warm"]
    warm = statistics.median(later)
    for method, seconds in {"own process": took["cold"], "warm": later}.items():
        middle = statistics.median(seconds)
        print(f"{middle:6.1f} s {middle / warm:5.2f} ×  {method}  ({', '.join(f'{s:.1f}' for s in seconds)})")
    print(f"{first:6.1f} s          the first pass of the warm process, with the start of Spark")


def make_table(catalog, name: str) -> int:
    """A topic whose head supersedes most of its rows; the bytes of its files."""
    rng, table = random.Random(1), create_topic(catalog, name, {"hardpack.min.cleanable.dirty.ratio": "0"})
    for first in range(0, COMMITS * ROWS, ROWS):
        rows = {
            log: [row(first + n, f"k{rng.randrange(KEYS)}", f"{rng.randbytes(32).hex()}") for n in range(ROWS)]
            for log in range(LOGS)
        }
        append(table, rows)
    return sum(int(size) for size in table.refresh().inspect.files()["file_size_in_bytes"].to_pylist())


if __name__ == "__main__":
    main()
