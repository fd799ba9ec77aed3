"""Writers of other people on one topic, each in a thread, and the account of what they did."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
from hardpack.demo.topic import COLUMNS

PARTITIONS = (0, 1)
KEYS = 200
ROWS = 20
"""Rows of one partition in one append."""
LOST = ("CommitFailed", "ValidationException", "conflicting", "Conflict", "Cannot commit", "Missing required files")
"""What a writer meets that lost a race by Iceberg's own rules."""


@dataclass
class World:
    """The topic, what was appended and deleted, how often who succeeded or lost a race."""

    table: str
    connect: object
    """Makes a catalog; each thread has its own."""
    spark: object
    rng: random.Random
    appended: dict[tuple[int, int], tuple[bytes | None, str | None]] = field(default_factory=dict)
    """Key and value by partition and offset."""
    deleted: set[tuple[int, int]] = field(default_factory=set)
    """Rows that somebody asked to be deleted, whatever came of it."""
    gone: set[tuple[int, int]] = field(default_factory=set)
    """Rows whose deletion was confirmed."""
    told: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    next_offset: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))

    @property
    def sql_name(self):
        return f"hardpack.{self.table}"

    def start(self, *verbs):
        """Each verb again and again in a thread, with its pause in seconds after each turn."""
        self.threads = [threading.Thread(target=self._repeat, args=verb, daemon=True) for verb in verbs]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(120)

    def _repeat(self, verb, pause):
        turn = verb(self)
        while not self.over.is_set():
            started = time.monotonic()
            try:
                next(turn)
                self.told[verb.__name__] += 1
            except Exception as error:
                lost = any(word in str(error) or word in type(error).__name__ for word in LOST)
                if not lost or verb is appender:
                    self.failures.append(f"{verb.__name__}: {type(error).__name__}: {str(error)[:300]}")
                self.told[f"{verb.__name__} lost a race"] += lost
                turn = verb(self)
            self.over.wait(max(0.05, pause - (time.monotonic() - started)))


def appender(world):
    """Appends by pyiceberg; it must never fail."""
    table = world.connect().load_table(world.table)
    while True:
        rows, moment = [], time.time_ns() // 1000
        for p in PARTITIONS:
            for _ in range(ROWS):
                offset = world.next_offset[p]
                world.next_offset[p] += 1
                key = f"k{world.rng.randrange(KEYS)}".encode()
                value = None if world.rng.random() < 0.1 else f"v{p}.{offset}"
                rows.append((p, offset, key, value))
        columns = zip(*rows, strict=True)
        partition, offset, key, value = map(list, columns)
        timestamp = pa.array([moment] * len(rows), pa.int64()).cast(COLUMNS.field("timestamp").type)
        # noted before, since the outcome of an append that fails is not known; none may fail
        world.appended |= {(p, o): (k, v) for p, o, k, v in rows}
        table.append(pa.table([pa.array(partition, pa.int32()), offset, timestamp, key, value], schema=COLUMNS))
        yield


def bin_packer(world):
    """Small files made into larger ones by Iceberg's procedure."""
    while True:
        options = "map('min-input-files', '5', 'partial-progress.enabled', 'false')"
        world.spark.sql(
            f"CALL hardpack.system.rewrite_data_files(table => '{world.sql_name}', options => {options})"
        ).collect()
        yield


def expirer(world):
    """Old snapshots removed, as short as any sane table keeps them."""
    while True:
        world.spark.sql(
            f"CALL hardpack.system.expire_snapshots(table => '{world.sql_name}', "
            f"older_than => TIMESTAMP '{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(time.time() - 60))}', "
            "retain_last => 30)"
        ).collect()
        yield


def deleter(world):
    """Single rows of somebody's request taken out, copy-on-write."""
    while True:
        partition = world.rng.choice(PARTITIONS)
        # what was appended for certain
        there = world.next_offset[partition] - 2 * ROWS
        if there <= 0:
            yield
            continue
        offset = world.rng.randrange(there)
        # noted before: a statement whose outcome is unknown may have taken it
        world.deleted.add((partition, offset))
        world.spark.sql(f"DELETE FROM {world.sql_name} WHERE partition = {partition} AND `offset` = {offset}").collect()
        world.gone.add((partition, offset))
        yield


def account(world, rows, checkpoints):
    """What is wrong with the rows that are left: the contract in a few lines, without hardpack's code.

    Args:
        world: what everybody did.
        rows: the table's, as `(partition, offset, key, value)`.
        checkpoints: by partition, the offset below which the log has been cleaned.
    """
    standing = _latest(
        (at, row) for at, row in world.appended.items() if at[1] < checkpoints[at[0]] and at not in world.deleted
    )
    left, wrong = Counter((p, o) for p, o, *_ in rows), []
    for p, o, k, v in rows:
        if world.appended.get((p, o)) != (k, v):
            wrong.append(f"changed or never written: {p}/{o}")
        elif (p, o) in world.gone:
            wrong.append(f"deleted, and back: {p}/{o}")
        elif o < standing.get((p, k), -1):
            wrong.append(f"superseded below the checkpoint, and there: {p}/{o}")
    newest = _latest(world.appended.items())
    for (p, o), (k, v) in world.appended.items():
        if (p, o) in left or (p, o) in world.deleted:
            continue
        if newest[p, k] == o and v is not None:
            wrong.append(f"lost: {p}/{o}")
        if o >= checkpoints[p]:
            wrong.append(f"gone from the dirty head: {p}/{o}")
    return wrong + [f"doubled: {p}/{o}" for (p, o), times in left.items() if times > 1]


def _latest(appended):
    """Greatest offset by partition and key."""
    found = {}
    for (p, o), (k, _) in appended:
        found[p, k] = max(o, found.get((p, k), -1))
    return found
