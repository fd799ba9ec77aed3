"""A stream whose every offset, batch and segment is the same on every run, aborted transactions included."""

from __future__ import annotations

import random
import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition, admin

from infra.kafka import Broker

# The broker stamps the marker that ends a transaction with its own clock, and whatever is stamped more than segment.ms
# after its segment's first batch begins a new one. Rows from 2100 leave the cuts to the rows alone.
START = 4_102_444_800_000
STEP = 10_000
CUTS = {
    "segment.ms": "1000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
SEGMENTS = 8
KEYS = 8_000
# batches of a segment
BATCHES = 25
# writer, first and last segment, end. One writer commits and aborts, and two write at the same time. The last of each
# is a commit with rows that stay: the cleaner keeps an active writer's last batch, even empty, and thus its marker.
TRANSACTIONS = (
    ("a", 0, 1, "commit"),
    ("b", 1, 3, "abort"),
    ("a", 2, 2, "abort"),
    ("a", 4, 6, "commit"),
    ("b", 5, 5, "abort"),
    ("b", 7, 7, "commit"),
)
Row = tuple[str, str | None]


def produce(broker: Broker, topic: str, partitions: int = 2, records: int = 100_000, seed: int = 1) -> None:
    """Fill an empty topic that has the settings `CUTS`; all but each partition's last batch lies in closed segments.

    Args:
        broker: where the topic is.
        topic: its name.
        partitions: how many it has.
        records: of all partitions together, without markers; what is left over after equal batches is left out.
        seed: of keys and values.
    """
    rng, size = random.Random(seed), records // (partitions * SEGMENTS * BATCHES)
    plain, writers = client(broker), {name: client(broker, name) for name in ("a", "b")}
    for writer in writers.values():
        writer.init_transactions()
    end = 0
    for segment in range(SEGMENTS):
        for name, first, _, _ in TRANSACTIONS:
            if first == segment:
                writers[name].begin_transaction()
        turns = [plain] + [
            w for n, first, last, _ in TRANSACTIONS if first <= segment <= last for w in (writers[n], plain)
        ]
        for batch in range(BATCHES):
            rows = [[row(rng) for _ in range(size)] for _ in range(partitions)]
            send(turns[batch % len(turns)], topic, START + segment * STEP, rows)
            end += size
        for name, _, last, verdict in TRANSACTIONS:
            if last == segment:
                getattr(writers[name], f"{verdict}_transaction")()
                end += 1
                wait_end(broker, topic, partitions, end)
    close_segment(broker, topic, partitions, 0)


def close_segment(broker: Broker, topic: str, partitions: int, number: int) -> None:
    """Overwrite and delete a few keys in the next segment, which closes the one before; one batch, so only that one.

    Args:
        broker: where the topic is.
        topic: its name; filled by `produce`, which ends with number 0.
        partitions: how many it has.
        number: one more each time.
    """
    rows: list[Row] = [(f"k{10 * number + i}", f"closing {number}" if i % 3 else None) for i in range(10)]
    send(client(broker), topic, START + (SEGMENTS + number) * STEP, [rows] * partitions)


def row(rng: random.Random) -> Row:
    """Few keys come often, about one row in eight is a tombstone, some values are empty."""
    key, kind = f"k{int(KEYS * rng.random() ** 3)}", rng.random()
    return key, None if kind < 0.12 else "" if kind < 0.13 else f"value {rng.randrange(10**6)}"


def client(broker: Broker, transactional_id: str | None = None) -> Producer:
    """A producer whose batches stay in order and go out on `flush` alone."""
    own: dict[str, str | int] = {"transactional.id": transactional_id} if transactional_id else {"max.in.flight": 1}
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 10_000, "log_level": 2} | own)


def send(writer: Producer, topic: str, timestamp: int, logs: list[list[Row]]) -> None:
    """One batch per partition, in its log when this returns."""
    for partition, rows in enumerate(logs):
        for key, value in rows:
            writer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=timestamp)
    writer.flush()


def delivered(error: KafkaError | None, _: Message) -> None:
    """A lost row must not go unnoticed."""
    if error:
        raise KafkaException(error)


def wait_end(broker: Broker, topic: str, partitions: int, offset: int) -> None:
    """Until every log ends at this offset: a transaction's end is acknowledged before its markers are written."""
    asked = {TopicPartition(topic, p): admin.OffsetSpec.latest() for p in range(partitions)}
    deadline = time.monotonic() + 30
    while any(found.result().offset < offset for found in broker.admin.list_offsets(asked).values()):
        assert time.monotonic() < deadline, f"{topic} does not reach offset {offset}"
        time.sleep(0.01)
