"""Records that a test sends at an even pace while a sink reads them, and what is left of them by Kafka's rules."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from itertools import count

from confluent_kafka import Producer

RECORDS = int(os.environ.get("HARDPACK_SINK_RECORDS", "100000"))
COMMITS = int(os.environ.get("HARDPACK_SINK_COMMITS", "500"))
FAILURE = re.compile(r"Commit failed|Failed to commit|CommitFailedException|ValidationException|state=FAILED")
RETRY = "Retrying task after failure"
"""Iceberg says so of a commit that met another one and is tried again, with the exception on the next line."""
KEYS, BURST, COMMIT_SECONDS, SEED = 2_000, 50, 1.0, 11


class Sender(threading.Thread):
    """Sends records until there are enough of them and somebody says so; notes by place what each says."""

    def __init__(self, bootstrap, topics, tombstones):
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self.topics, self.tombstones = topics, tombstones
        self.enough, self.sent = threading.Event(), {}

    def run(self):
        source, pause = random.Random(SEED), COMMITS * COMMIT_SECONDS * BURST / RECORDS
        for n in count():
            if n >= RECORDS and self.enough.is_set():
                break
            key, deletes = f"order-{source.randrange(KEYS)}", source.random() < 0.1
            told = {"order_id": key, "op": "D" if deletes else "c", "n": n}
            value = None if deletes and self.tombstones else json.dumps(told).encode()
            topic = self.topics[n % len(self.topics)]
            self.producer.produce(topic, key=key.encode(), value=value, on_delivery=self._note)
            if n % BURST == BURST - 1:
                self.producer.flush()
                time.sleep(pause)
        self.producer.flush()

    def _note(self, error, message):
        assert error is None, error
        place = message.topic(), message.partition(), message.offset()
        self.sent[place] = message.key().decode(), message.value()

    def ends(self):
        """The places of the last record of each log."""
        last = {}
        for topic, partition, offset in sorted(self.sent):
            last[topic, partition] = offset
        return {(*log, offset) for log, offset in last.items()}

    def latest(self):
        """The places of the last record of each key in each log."""
        last = {}
        for (topic, partition, offset), (key, _) in sorted(self.sent.items()):
            last[topic, partition, key] = offset
        return {(topic, partition, offset) for (topic, partition, _), offset in last.items()}


def until(what, seconds, wish):
    """What a call gives once it gives something."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, wish
        time.sleep(1)
    return found


def commits_of(table, note):
    """How many snapshots have an entry that begins so in their summary."""
    summaries = [s.summary.additional_properties for s in table.refresh().snapshots()]
    return sum(any(name.startswith(note) for name in summary) for summary in summaries)


def failures_in(log):
    """The lines by which a sink says that a commit of its own was given up, and how many were only tried again."""
    lines = log.splitlines()
    met = [n for n, line in enumerate(lines) if FAILURE.search(line) and RETRY not in line]
    retried = [n for n in met if n and RETRY in lines[n - 1]]
    return [lines[n] for n in met if n not in retried], len(retried)
