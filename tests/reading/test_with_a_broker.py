"""A state from the table and what a real broker has after it are the topic: nothing lost, nothing twice.

A producer writes, a sink brings records into the table with a lag, passes clean it, and a reader begins anew at random
moments, also while the table changes under it. HARDPACK_BOOTSTRAP_RECORDS and HARDPACK_BOOTSTRAP_TURNS make it longer.
"""

import os
import random
import re

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from hardpack.rules.reference.row import Row

from infra.kafka import Broker
from tests.conftest import ROOT
from tests.topics import append, name_of, new_topic

pytestmark = [pytest.mark.kafka]
RECORDS = int(os.environ.get("HARDPACK_BOOTSTRAP_RECORDS", "20000"))
TURNS = int(os.environ.get("HARDPACK_BOOTSTRAP_TURNS", "3"))
TOPIC, PARTITIONS, KEYS = "state", (0, 1), 700


class Topic:
    """The topic, and what it has: by partition the value of each key."""

    def __init__(self, broker, rng):
        self.broker, self.rng = broker, rng
        self.state = {p: {} for p in PARTITIONS}
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})

    def produce(self, number):
        for _ in range(number):
            key, partition = f"k{self.rng.randrange(KEYS)}".encode(), self.rng.choice(PARTITIONS)
            value = None if self.rng.random() < 0.15 else str(self.rng.random())
            self.producer.produce(TOPIC, value, key, partition)
            self.ends[partition] += 1
            self.state[partition].pop(key, None)
            if value is not None:
                self.state[partition][key] = value
        assert self.producer.flush(60) == 0

    def consumer(self, offsets):
        """A consumer that goes on at these offsets."""
        group = {"group.id": f"g{self.rng.random()}", "enable.auto.commit": False, "log_level": 2}
        made = Consumer({"bootstrap.servers": self.broker.bootstrap, "auto.offset.reset": "error", **group})
        made.assign([TopicPartition(TOPIC, p, offset) for p, offset in offsets.items()])
        return made

    def records(self, consumer, most):
        """The next records, so many as there are, or as are asked for."""
        out = []
        while len(out) < most:
            found = consumer.consume(min(5000, most - len(out)), 10)
            assert found, "the broker has records that do not come"
            assert not any(m.error() for m in found)
            out += found
        return out


def test_a_reader_that_begins_with_the_table_misses_nothing(catalog, hp):
    rng = random.Random(4)
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, active_segment="none", delete_retention_ms=1)
    name, passes, gone_on = name_of(table), 0, 0
    with Broker(ROOT / ".hardpack") as broker:
        broker.create_topic(TOPIC, len(PARTITIONS), {})
        topic = Topic(broker, rng)
        sink, sunk = topic.consumer(dict.fromkeys(PARTITIONS, OFFSET_BEGINNING)), 0

        def bring(share):
            nonlocal sunk
            some = topic.records(sink, int((sum(topic.ends.values()) - sunk) * share))
            sunk += len(some)
            rows = {p: [as_row(m) for m in some if m.partition() == p] for p in PARTITIONS}
            append(table.refresh(), {p: found for p, found in rows.items() if found})

        def clean():
            nonlocal passes
            report = hp.clean(hp.plan(name, force=True))
            passes += report.snapshot is not None
            hp.expire_tombstones(name)

        for _ in range(TURNS):
            topic.produce(RECORDS // TURNS)
            bring(rng.choice([0.3, 0.9, 1]))
            if rng.random() < 0.7:
                clean()
            found = hp.bootstrap(name)
            state = {p: {} for p in PARTITIONS}
            for number, batch in enumerate(found.rows):
                if not number:
                    # the table changes while it is read, and the topic
                    topic.produce(500)
                    bring(0.5)
                    clean()
                for row in batch.to_pylist():
                    assert row["key"] not in state[row["partition"]], "a key comes once"
                    state[row["partition"]][row["key"]] = row["value"]
            # a partition that the table has not yet begins at its beginning
            offsets = {p: found.offsets.get(str(p), 0) for p in PARTITIONS}
            consumer, expected = topic.consumer(offsets), dict(offsets)
            for message in topic.records(consumer, sum(topic.ends.values()) - sum(offsets.values())):
                assert message.offset() == expected[message.partition()], "no gap and none twice"
                expected[message.partition()] += 1
                gone_on += 1
                own = state[message.partition()]
                own.pop(message.key(), None)
                if message.value() is not None:
                    own[message.key()] = message.value().decode()
            consumer.close()
            assert (expected, state) == (topic.ends, topic.state)
        sink.close()
        as_in_the_docs(hp, name, broker, topic)
    assert passes >= TURNS
    print(f"{sum(topic.ends.values())} records, {TURNS} beginnings, {passes} passes, {gone_on} records from the broker")


def as_in_the_docs(hp, name, broker, topic):
    """The example of docs/reading.md is run as it stands there."""
    (example,) = re.findall(
        r"```python\n(from confluent_kafka.*?)```", (ROOT / "docs" / "reading.md").read_text(), re.S
    )
    places = {"db.topic": name, "localhost:9092": broker.bootstrap, '"topic"': f'"{TOPIC}"'}
    for said, there in places.items():
        assert said in example
        example = example.replace(said, there)
    names = {"hp": hp}
    exec(example, names)
    assert names["state"]
    topic.produce(10)
    (message,) = names["consumer"].consume(1, 10)
    assert message.offset() == names["found"].offsets[str(message.partition())]
    names["consumer"].close()


def as_row(message):
    value = message.value()
    return Row(message.offset(), message.key(), value)
