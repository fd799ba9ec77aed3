"""A table takes the settings of a topic from the broker."""

import json
from concurrent.futures import Future

import pytest
from confluent_kafka.admin import ConfigSource
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.errors import BadInput, Unavailable
from hardpack.operations import broker, like_topic
from hardpack.operations.like_topic import topic_settings
from typer.testing import CliRunner

from infra.kafka import Broker
from tests.conftest import ROOT
from tests.topics import name_of, new_topic

SET = {"cleanup.policy": "compact,delete", "retention.ms": "86400000", "delete.retention.ms": "3600000"}


@pytest.mark.parametrize("place", ["", "orders", "kafka:9092", "kafka:9092/", "/orders"])
def test_a_place_that_is_none(place):
    with pytest.raises(BadInput, match="names no topic of a broker, expected HOST:PORT/TOPIC"):
        topic_settings(place)


def test_a_broker_that_does_not_answer(monkeypatch):
    for module in (broker, like_topic):
        monkeypatch.setattr(module, "SECONDS", 1)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9/orders: the broker does not answer"):
        topic_settings("127.0.0.1:9/orders")


def test_a_file_of_properties(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("# mine\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    assert broker._properties(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    with pytest.raises(BadInput, match="cannot be read as a file of a Kafka client's properties"):
        topic_settings("127.0.0.1:9/orders", tmp_path / "none")


@pytest.mark.parametrize("text", ["sasl.password hunter2", "sasl.password=\\\n  hunter2"])
def test_a_line_that_is_no_property_is_not_told(tmp_path, text):
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(BadInput, match="line 1 is no property, expected NAME=VALUE in one line") as refused:
        topic_settings("127.0.0.1:9/orders", path)
    assert "hunter2" not in str(refused.value)


def test_a_property_that_no_client_knows(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("no.such=1\n")
    with pytest.raises(BadInput, match=r"client refuses a property or a name \(.*no\.such.*mend it"):
        topic_settings("127.0.0.1:9/orders", path)


@pytest.mark.kafka
def test_a_table_is_adopted_like_a_topic_of_a_real_broker(catalog, lake, monkeypatch):
    table = new_topic(catalog)
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    with Broker(ROOT / ".hardpack") as broker:
        broker.create_topic("orders", 1, SET)
        place = f"{broker.bootstrap}/orders"
        assert topic_settings(place) == SET
        run = ["adopt", name_of(table), "--like-topic", place, "--set", "retention.ms=5"]
        said = CliRunner().invoke(app, run, env={"COLUMNS": "200"})
        assert said.exit_code == 0, said.exception
        assert "sets cleanup.policy=compact,delete, delete.retention.ms=3600000, retention.ms=86400000" in said.stdout
        with pytest.raises(BadInput, match="the broker has no such topic"):
            topic_settings(f"{broker.bootstrap}/none")
    told = json.loads(CliRunner().invoke(app, ["adopt", name_of(table), "--json"]).stdout)
    assert (told["cleanup.policy"], told["delete.retention.ms"], told["retention.ms"]) == (
        "compact,delete",
        3_600_000,
        5,
    )


def test_a_topic_that_keeps_every_record_is_not_made_a_compacted_one(monkeypatch):
    class Entry:
        value, source = "", ConfigSource.DYNAMIC_TOPIC_CONFIG.value

    class Admin:
        def describe_configs(self, wanted, request_timeout):
            told = Future()
            told.set_result({"cleanup.policy": Entry})
            return {wanted[0]: told}

    monkeypatch.setattr(like_topic, "admin_client", lambda *_: Admin())
    with pytest.raises(BadInput, match="policy is empty, by which Kafka keeps every record"):
        topic_settings("broker:9092/orders")
