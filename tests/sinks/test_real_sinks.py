"""Real sinks write a table while hardpack cleans it; the writer is killed twice meanwhile and started again.

A real broker, and no fixture: Iceberg's own Kafka Connect sink, unpartitioned, whose files hold rows of several logs
and which passes over tombstones; and Spark Structured Streaming of two topics into one table.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict

import pytest
from hardpack import Conflict
from hardpack.home import default_home
from pyiceberg.exceptions import NoSuchTableError

from infra.connect import Connect
from infra.kafka import Broker
from tests.sinks.stream import Stream
from tests.sinks.topic import COMMIT_SECONDS, COMMITS, Sender, commits_of, failures_in, until

pytestmark = [pytest.mark.sinks, pytest.mark.timeout(3600)]
PARTITIONS = 3


def rows_of(table, columns):
    """By place what the table's rows say; each place once."""
    found = {}
    for row in table.refresh().scan(selected_fields=tuple(columns)).to_arrow().to_pylist():
        *place, key, value = (row[name] for name in columns)
        assert tuple(place) not in found, f"a row stands twice at {place}"
        found[tuple(place)] = key, value
    return found


def cleaned_meanwhile(hp, name, table, sender, note, service):
    """Clean while records are sent and the writer is killed twice; counts what came of it."""
    told, kills = defaultdict(int), []
    for part in (0.3, 0.6):
        kills.append(threading.Timer(COMMITS * COMMIT_SECONDS * part, lambda: (service.kill(), service.start())))
        kills[-1].start()
    while sender.is_alive():
        try:
            told["passes"] += hp.clean(hp.plan(name)).snapshot is not None
        except Conflict:
            told["yielded"] += 1
        if commits_of(table, note) >= COMMITS:
            sender.enough.set()
    for kill in kills:
        kill.join()
    return told


def settled(hp, name):
    """Clean all there is, now that nobody writes any more."""
    hp.adopt(name, {"active.segment": "none", "min.cleanable.dirty.ratio": "0"})
    hp.clean(hp.plan(name))
    assert hp.verify(name).success


def told_of(writer, table, sender, note, told, log):
    failures, retried = failures_in(log.read_text())
    commits, splits = commits_of(table, note), commits_of(table, "hardpack.split")
    print(f"\n{writer}: {len(sender.sent)} records in {commits} commits, killed twice; {told['passes']} passes, "
          f"{told['yielded']} yielded, {splits} splits; commits of the sink: {retried} tried again, {len(failures)} "
          "given up")  # fmt: skip
    assert failures == []
    assert told["passes"] > 0
    assert commits >= COMMITS


def test_kafka_connect(hp, catalog, lake, tmp_path):
    name = "shop.orders"
    columns = (*(f"_kafka_metadata_{role}" for role in ("topic", "partition", "offset")), "order_id", "n")
    catalog.create_namespace_if_not_exists("shop")

    def made():
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            return None
        return table if table.current_snapshot() else None

    with Broker() as broker:
        broker.create_topic("orders", PARTITIONS, {})
        broker.create_topic("control-iceberg", 1, {})
        with Connect(
            tmp_path / "connect", default_home(), bootstrap=broker.bootstrap, topic="orders", table=name,
            interval_ms=f"{COMMIT_SECONDS * 1000:.0f}",
            catalog="hardpack", nested="false", database=lake["uri"].removeprefix("sqlite:///"),
            warehouse=lake["warehouse"],
        ) as worker:  # fmt: skip
            sender = Sender(broker.bootstrap, ["orders"], tombstones=False)
            sender.start()
            table = until(made, 180, f"the sink has made no table; see {worker.log}")
            hp.adopt(name, {"column.key": "order_id", "tombstone": "op=D", "min.cleanable.dirty.ratio": "0.2"})
            note = "kafka.connect.commit-id"
            told = cleaned_meanwhile(hp, name, table, sender, note, worker)
            until(lambda: sender.ends() <= rows_of(table, columns).keys(), 180, f"the sink is behind; see {worker.log}")
            assert worker.is_up()
    settled(hp, name)
    found = rows_of(table, columns)
    assert found.keys() == sender.latest()
    assert all(found[at] == (sender.sent[at][0], json.loads(sender.sent[at][1])["n"]) for at in found)
    told_of("Kafka Connect", table, sender, note, told, worker.log)


def test_spark_structured_streaming_of_two_topics(hp, catalog, lake, spark, tmp_path):
    name, topics = "shop.streamed", ["orders.of.all.customers", "returns"]
    columns = ("topic", "partition", "offset", "key", "value")
    catalog.create_namespace_if_not_exists("shop")
    spark.sql(
        f"CREATE TABLE hardpack.{name} (key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int) USING iceberg"
    )
    table = catalog.load_table(name)
    with Broker() as broker:
        for topic in topics:
            broker.create_topic(topic, PARTITIONS, {})
        with Stream(tmp_path / "stream", default_home(), lake, broker.bootstrap, topics, name) as stream:
            sender = Sender(broker.bootstrap, topics, tombstones=True)
            sender.start()
            written = {log[:2] for log in ((t, p) for t in topics for p in range(PARTITIONS))}
            until(lambda: {at[:2] for at in rows_of(table, columns)} >= written, 180, f"it is behind; see {stream.log}")
            hp.adopt(name, {"min.cleanable.dirty.ratio": "0.2"})
            note = "spark.sql.streaming.epochId"
            told = cleaned_meanwhile(hp, name, table, sender, note, stream)
            until(lambda: sender.ends() <= rows_of(table, columns).keys(), 180, f"it is behind; see {stream.log}")
    assert {s.partition for s in hp.status(name)} == {f"{t}-{p}" for t in topics for p in range(PARTITIONS)}
    settled(hp, name)
    found = rows_of(table, columns)
    assert found.keys() == sender.latest()
    assert all((key.decode(), value) == sender.sent[at] for at, (key, value) in found.items())
    told_of("Spark Structured Streaming", table, sender, note, told, stream.log)
