"""A pass on local disk, on S3 next door and on S3 behind a delay: python -m tests.benchmarks.far [--scale 0.25].

S3 is a server on loopback over the same disk, behind a proxy that counts requests and holds the first byte of each
answer back. Places come in turns, each a process of its own, whose first pass is not counted. Printed are the medians,
the ratio to local disk, and what a pass asks the storage for.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hardpack import Hardpack
from hardpack.home import default_home
from hardpack.spark.jars import fetch, needed
from hardpack.spark.versions import installed_spark
from pyiceberg.catalog import load_catalog

from infra.services.storage import Storage
from tests.benchmarks import datasets
from tests.benchmarks.__main__ import expected, fingerprint
from tests.benchmarks.measure import cost_of
from tests.benchmarks.methods import Run, hardpack
from tests.proxy import FarProxy, by_method

DOWNLOADS = default_home() / "services"
PLACES = ("local disk", "S3", "S3, far")


@dataclass
class Turns:
    """What passes at one place cost, and what each asked the storage for."""

    seconds: list[float] = field(default_factory=list)
    asked: list[tuple[Counter[str], int, int]] = field(default_factory=list)
    paths: Counter[str] = field(default_factory=Counter)


def one(data: datasets.DataSet, passes: int) -> None:
    """In a process of its own: so many passes, each announced, over a fresh copy of the table's metadata."""
    catalog = load_catalog(datasets.CATALOG, **json.loads(os.environ["FAR_CATALOG"]))
    metadata = os.environ["FAR_METADATA"]
    with tempfile.TemporaryDirectory() as scratch:
        hp = Hardpack(catalog, home=Path(scratch))
        for _ in range(passes):
            run = Run(hp, datasets.copy_of(metadata, Path(scratch), "far", catalog), data, Path(scratch))
            with catalog.load_table(run.table).transaction() as change:
                # else a pass would find the key filters of the one before
                change.set_properties({"hardpack.key.filter.min.rows": str(10**9)})
            print("begin", flush=True)
            cost = cost_of(partial(hardpack, run))
            if cost.failure:
                sys.exit(cost.failure)
            print(json.dumps(cost.as_dict()), flush=True)
            print(json.dumps({"fingerprint": fingerprint(run.rows())}), flush=True)
        hp.spark.stop()


def turn(place: str, catalog: dict[str, str], metadata: str, args: argparse.Namespace, proxy: FarProxy | None,
         right: str, found: Turns) -> None:  # fmt: skip
    """Run the passes of one process, and note what they cost."""
    env = {**os.environ, "FAR_CATALOG": json.dumps(catalog), "FAR_METADATA": metadata}
    command = [sys.executable, "-m", "tests.benchmarks.far", "--one", "--set", args.set, "--scale", str(args.scale),
               "--passes", str(args.passes)]  # fmt: skip
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        number = 0
        for line in process.stdout:
            if line == "begin\n":
                if proxy:
                    proxy.taken()
                continue
            told = json.loads(line)
            if "fingerprint" in told:
                if told["fingerprint"] != right:
                    sys.exit(f"{place}: its rows are not the reference cleaner's")
                continue
            requests, sent, got = proxy.taken() if proxy else ([], 0, 0)
            number += 1
            print(f"{place}, pass {number}: {told['seconds']:.1f} s, {dict(by_method(requests))}", flush=True)
            if number > 1:
                # the first one starts Java and makes code
                found.seconds.append(told["seconds"])
                found.asked.append((by_method(requests), sent, got))
                found.paths.update(kind_of(*request) for request in requests)
    if process.returncode:
        sys.exit(f"{place}: a pass failed")


def kind_of(method: str, path: str) -> str:
    """Returns what a request is about, by the name of what it asks for."""
    path, _, query = path.partition("?")
    kinds = (".metadata.json", ".avro", ".parquet", ".stats", ".puffin")
    kind = next((end for end in kinds if path.endswith(end)), "") or Path(path).suffix or "folders"
    part = next((f" {word}" for word in ("uploads", "uploadId", "delete", "list-type") if word in query), "")
    return f"{method} {kind}{part}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.far", description=__doc__)
    parser.add_argument("--set", default="uniform_half", help=f"one of {', '.join(datasets.ALL)}")
    parser.add_argument("--scale", type=float, default=0.25, help="times the rows of the set")
    parser.add_argument("--delay", type=float, default=30, help="milliseconds to the first byte")
    parser.add_argument("--passes", type=int, default=3, help="of a process, the first of which is not counted")
    parser.add_argument("--rounds", type=int, default=1, help="processes of each place")
    parser.add_argument("--places", default=";".join(PLACES), help="some of them, with semicolons between")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    data = datasets.ALL[args.set] if args.scale == 1 else datasets.ALL[args.set].scaled(args.scale)
    if args.one:
        one(data, args.passes)
        return
    os.environ.setdefault("HARDPACK_DRIVER_MEMORY", "8g")
    with ExitStack() as undo:
        measure(data, args, undo)


def measure(data: datasets.DataSet, args: argparse.Namespace, undo: ExitStack) -> None:
    """Make the table at each place, take the turns and print them."""
    folder = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=_made(default_home() / "bench"))))
    os.environ["HARDPACK_HOME"] = str(_home(folder))
    storage = undo.enter_context(Storage(_made(folder / "s3"), DOWNLOADS))
    storage.client.create_bucket(Bucket="lake")
    proxies = {"S3": FarProxy(storage.port, 0), "S3, far": FarProxy(storage.port, args.delay / 1000)}
    for proxy in proxies.values():
        undo.enter_context(proxy)
    near = {"type": "sql", "uri": f"sqlite:///{_made(folder / 'near')}/catalog.db",
            "warehouse": f"file://{_made(folder / 'near' / 'warehouse')}"}  # fmt: skip
    far = {"type": "sql", "uri": f"sqlite:///{_made(folder / 'far')}/catalog.db", "warehouse": "s3://lake/warehouse"}
    catalogs = {"local disk": near} | {
        place: far | storage.properties | {"s3.endpoint": f"http://127.0.0.1:{proxy.port}"}
        for place, proxy in proxies.items()
    }
    local = datasets.build(data, folder / "near", load_catalog(datasets.CATALOG, **near))
    remote = datasets.build(data, folder / "far", load_catalog(datasets.CATALOG, **far | storage.properties))
    right = expected(Hardpack(load_catalog(datasets.CATALOG, **near)), data, local, folder / "near")
    found = defaultdict[str, Turns](Turns)
    for _ in range(args.rounds):
        for place in args.places.split(";"):
            metadata = local if place == "local disk" else remote
            turn(place, catalogs[place], metadata, args, proxies.get(place), right, found[place])
    show(data, args, found)


def show(data: datasets.DataSet, args: argparse.Namespace, found: dict[str, Turns]) -> None:
    """Print the table of medians, and the requests of a pass by what they are about."""
    print(f"\n{data.name}: {data.tail:,} clean and {data.head:,} head rows, {data.logs} logs, medians of "
          f"{args.rounds * (args.passes - 1)} passes; S3, far: {args.delay:g} ms to the first byte")  # fmt: skip
    print("| place | seconds | × | GET | HEAD | PUT | POST | DELETE | MB read | MB written |\n|" + "---|" * 10)
    first = statistics.median(next(iter(found.values())).seconds)
    for place, turns in found.items():
        seconds = statistics.median(turns.seconds)
        methods = (
            statistics.median(asked[method] for asked, _, _ in turns.asked)
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE")
        )
        got = statistics.median(got for _, _, got in turns.asked) / 1e6
        sent = statistics.median(sent for _, sent, _ in turns.asked) / 1e6
        cells: list[Any] = [place, f"{seconds:.1f}", f"{seconds / first:.2f}", *map("{:g}".format, methods),
                            f"{got:,.1f}", f"{sent:,.1f}"]  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |")
    for place, turns in found.items():
        for kind, number in turns.paths.most_common(15):
            print(f"{place}: {number / len(turns.seconds):.1f} {kind}")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _home(folder: Path) -> Path:
    """A home whose jars are those of a user with S3."""
    jars = _made(folder / "home" / "jars")
    jars.chmod(0o700)
    for jar in fetch(
        DOWNLOADS, [jar for jar in needed(installed_spark(), production=True) if "postgres" not in jar.name]
    ):
        shutil.copy(jar, jars)
    return folder / "home"


if __name__ == "__main__":
    main()
