"""What finding a row and reading a log cost: python -m tests.benchmarks.reading --rows 20000000 --files 40.

One log, in files of equal size as a pass writes them, rows by offset with holes between, times that rise with them.
Seeks go to offsets and times at random; each is compared with the answer from the whole columns, held in memory. The
same predicate is asked of DuckDB and of pyiceberg, a few times. Reading goes from the first row to the last, beside
pyarrow's own scan of the same files. Bytes are those beyond the footers, which are read once. With `--consumed`, so
many of the rows are put into a topic of a real broker on this machine too, and consumers read them there: Kafka's own
(ConsumerPerformance) and that of confluent_kafka.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from confluent_kafka import Consumer, Producer, TopicPartition
from hardpack.demo.topic import create_topic
from hardpack.files.content_file import listed_file
from hardpack.files.data_files import DataFiles
from hardpack.files.writer import write_files
from hardpack.reading.reader import TopicReader
from hardpack.table.columns import settings_of
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from infra.kafka import Broker
from tests.benchmarks.datasets import T0, open_lake
from tests.layouts import as_manifest_has_it

BATCH = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.reading", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seeks", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=20, help="seeks by each of the others")
    parser.add_argument("--rounds", type=int, default=3, help="of reading; the median counts")
    parser.add_argument("--consumed", type=int, default=0, help="rows that consumers of a broker read")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # in a process of its own, so that the peak of memory is that of reading
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(fill, Path(folder), args.rows, args.files).result()
        table = open_lake(Path(folder)).load_table("db.read")
        paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
        told(rows=args.rows, files=len(paths), bytes=sum(Path(p).stat().st_size for p in paths))
        reads(table, paths, args.rows, args.rounds)
        if args.consumed:
            consumed(table, min(args.rows, args.consumed), args.rounds)
        offsets, times = places(args.rows, np.random.default_rng(1))
        seeks(table, offsets, times, args.seeks)
        others(table, paths, offsets, times, args.others)


def told(**found: Any) -> None:
    """Prints a line."""
    print(json.dumps(found), flush=True)


def places(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns offsets, and times in ms."""
    offsets = np.cumsum(rng.integers(1, 4, rows))
    return offsets, T0 + np.cumsum(rng.integers(0, 3, rows)) + rng.integers(0, 1000, rows)


def fill(folder: Path, rows: int, files: int) -> None:
    """Makes the table."""
    table, rng = create_topic(open_lake(folder), "db.read", {}), np.random.default_rng(1)
    offsets, times = places(rows, rng)
    writer, made = DataFiles.of(table, settings=settings_of(table)), []
    for part in np.array_split(np.arange(rows), files):
        like = listed_file("", "parquet", table.spec().spec_id, (0,), 0, 0)
        made += write_files(writer, batches(table, offsets[part], times[part], rng), like, 2**62)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for file in made:
            snapshot.append_data_file(as_manifest_has_it(file))


def batches(table: Table, offsets: np.ndarray, times: np.ndarray, rng: np.random.Generator) -> Iterator[pa.RecordBatch]:
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    for at in range(0, len(offsets), BATCH):
        own = slice(at, at + BATCH)
        size = len(offsets[own])
        keys = [b"key-%08d" % key for key in rng.integers(0, 10_000_000, size)]
        values = pa.array(rng.integers(0, 10**12, size)).cast(pa.string())
        columns = [pa.nulls(size, pa.int32()).fill_null(0), offsets[own], times[own] * 1000, keys, values]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
        )


def seeks(table: Table, offsets: np.ndarray, times: np.ndarray, number: int) -> None:
    """Seeks at random, each held against the whole columns."""
    reader, rng = TopicReader(table, settings_of(table), partitions=[0]), random.Random(2)
    latest = np.maximum.accumulate(times)
    for by in ("offset", "time"):
        took, read = [], []
        for at in range(0, len(offsets), 100_000):
            # footers and page indexes are read once
            reader.seek(0, int(offsets[at]))
            reader.offset_for_time(0, int(latest[at]))
        for _ in range(number):
            if by == "offset":
                value = rng.randrange(int(offsets[-1]) + 2)
                at = int(np.searchsorted(offsets, value))
            else:
                value = rng.randrange(int(times[0]) - 5, int(latest[-1]) + 5)
                # the first row as late as this is where the greatest time until then becomes so
                at = int(np.searchsorted(latest, value))
            began = time.perf_counter()
            found = reader.seek(0, value) if by == "offset" else reader.offset_for_time(0, value)
            seconds = time.perf_counter() - began
            wanted = (int(offsets[at]), int(times[at])) if at < len(offsets) else None
            assert (found and (found.offset, found.timestamp)) == wanted, (by, value, found, wanted)
            if found:
                took.append(seconds * 1000)
                read.append(found.bytes_read)
        told(seeks=by, number=number, equal=True, ms=spread(took), bytes=spread(read))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and worst."""
    ordered = sorted(values)
    at = {"median": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "worst": ordered[-1]}
    return {name: round(value, 1) for name, value in at.items()}


def others(table: Table, paths: list[str], offsets: np.ndarray, times: np.ndarray, number: int) -> None:
    """Asks DuckDB and pyiceberg for the first row at offsets and of times at random."""
    rng = random.Random(3)
    asked = [(int(rng.choice(offsets)), int(rng.choice(times))) for _ in range(number)]
    base = duckdb.sql(f"SELECT * FROM read_parquet({paths!r})")
    micros = "epoch_us(timestamp)"
    ways: dict[str, Callable[[int, int], Any]] = {
        "duckdb offset": lambda o, _: base.filter(f'"offset" >= {o}').aggregate('min("offset")').fetchall(),
        "duckdb time": lambda _, t: base.filter(f"{micros} >= {t * 1000}").aggregate('min("offset")').fetchall(),
        "pyiceberg offset": lambda o, _: table.scan(
            row_filter=f"partition = 0 and offset = {o}", selected_fields=("offset", "timestamp")
        ).to_arrow(),
        "pyiceberg time": lambda _, t: table.scan(
            row_filter=f"timestamp >= '{np.datetime64(t, 'ms')}+00:00'", selected_fields=("offset",)
        ).to_arrow()["offset"].to_numpy().min(),
    }  # fmt: skip
    for way, work in ways.items():
        took = []
        for o, t in asked:
            began = time.perf_counter()
            work(o, t)
            took.append((time.perf_counter() - began) * 1000)
        told(way=way, number=number, ms=spread(took))


def reads(table: Table, paths: list[str], rows: int, rounds: int) -> None:
    """Reads all rows in order, and by pyarrow's scan in any order, in turns. The peak is that of our first turn."""
    ours, theirs, peaks = [], [], []
    for _ in range(rounds):
        began, last, count = time.perf_counter(), -1, 0
        for batch in TopicReader(table, settings_of(table)).read():
            found = batch["offset"].to_numpy()
            assert found[0] > last
            assert (found[1:] > found[:-1]).all()
            last, count = int(found[-1]), count + len(batch)
        ours.append(time.perf_counter() - began)
        assert count == rows
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        began = time.perf_counter()
        assert sum(len(batch) for batch in ds.dataset(paths).to_batches()) == rows
        theirs.append(time.perf_counter() - began)
    own, other = statistics.median(ours), statistics.median(theirs)
    told(
        reading=rows, rounds=rounds, rows_per_second=round(rows / own), pyarrow=round(rows / other),
        ratio=round(other / own, 2), peak_bytes=peaks[0],
    )  # fmt: skip


def consumed(table: Table, rows: int, rounds: int) -> None:
    """Reads the first rows of the table from it and, as their records, from a broker, in turns."""
    reader, topic = TopicReader(table, settings_of(table)), "read"
    speeds = defaultdict[str, list[float]](list)
    with Broker() as broker:
        broker.create_topic(topic, 1, {"retention.ms": "-1"})
        produce(broker, topic, reader, rows)
        for _ in range(rounds):
            speeds["hardpack"].append(rows / seconds(lambda: sum(map(len, first(reader, rows)))))
            found = broker.tool(
                "org.apache.kafka.tools.ConsumerPerformance",
                *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", str(rows)),
                measured=True,
            )
            # without the time to start and to join a group
            speeds["kafka"].append(float(found.strip().splitlines()[-1].split(",")[-1]))
            consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench", "log_level": 0})
            consumer.assign([TopicPartition(topic, 0, 0)])
            speeds["confluent_kafka"].append(rows / seconds(partial(consume, consumer, rows)))
            consumer.close()
    told(consumed=rows, rounds=rounds, rows_per_second={way: round(statistics.median(s)) for way, s in speeds.items()})


def first(reader: TopicReader, rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the first rows of the one log."""
    for batch in reader.read():
        yield batch.slice(0, rows)
        if (rows := rows - len(batch)) <= 0:
            return


def produce(broker: Broker, topic: str, reader: TopicReader, rows: int) -> None:
    """Puts the first rows into a topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "batch.size": 2**20, "log_level": 0})
    for batch in first(reader, rows):
        keys, values, times = (batch[name] for name in ("key", "value", "timestamp"))
        for key, value, at in zip(keys.to_pylist(), values.to_pylist(), times.cast("int64").to_pylist(), strict=True):
            try:
                producer.produce(topic, value, key, timestamp=at // 1000)
            except BufferError:
                producer.flush()
                producer.produce(topic, value, key, timestamp=at // 1000)
    producer.flush()


def consume(consumer: Consumer, rows: int) -> None:
    """Takes so many records."""
    while rows > 0:
        found = consumer.consume(10_000, timeout=10)
        assert found, f"{rows} records are missing"
        rows -= len(found)


def seconds(act: Callable[[], object]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
