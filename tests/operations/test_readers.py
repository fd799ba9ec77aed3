"""Named readers: recorded, listed, and waited for by the tombstones that they have not passed."""

import json

import pytest
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.errors import BadInput, Conflict, Unavailable
from hardpack.operations import broker, readers
from hardpack.operations.readers import Positions, group_offsets
from hardpack.operations.stream_checkpoint import checkpoint_positions
from hardpack.rules.reader_source import ReaderSource
from typer.testing import CliRunner

from infra.kafka import Broker
from tests.conftest import ROOT
from tests.topics import append, name_of, new_topic, offsets, row, session_of

HOUR, DAY = 3_600_000, 86_400_000
T0 = 1_700_000_000_000
WAIT = {"horizon_readers": "wait", "delete_retention_ms": HOUR, "min_cleanable_dirty_ratio": 0}


@pytest.fixture
def said(lake, monkeypatch):
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))

    def say(*words):
        return CliRunner().invoke(app, ["reader", *words], env={"COLUMNS": "200"})

    return say


def with_tombstones(catalog, **settings):
    """A log of which 1 is a tombstone, and another of one row."""
    table = new_topic(catalog, **(WAIT | settings))
    append(table, {0: [row(0, "a"), row(1, "a", None), row(2, "b")], 1: [row(0, "c")]})
    append(table, {0: [row(3, "c")]})
    return table


@pytest.mark.spark
def test_a_tombstone_waits_for_every_reader_and_then_goes(hp, said):
    table = with_tombstones(hp.catalog)
    name = name_of(table)
    hp.clean(hp.plan(name, T0))
    assert offsets(table) == [1, 2, 3]
    hp.set_reader(name, "billing", Positions("", {"0": 3}), T0)
    hp.set_reader(name, "audit", Positions("", {"0": 1}), T0)
    later = T0 + HOUR
    assert hp.expire_tombstones(name, later).snapshot is None
    reason = next(p.reason for p in hp.plan(name, later).logs if p.partition == 0)
    assert "tombstones past their horizon wait for reader audit, at offset 1" in reason
    verdict = next(r for r in hp.explain(name, b"a", later).rows)
    assert (verdict.becomes, verdict.not_before) == ("waits", later)
    assert (
        "reader audit, which goes on at offset 1, has to pass offset 2, the last that shares its horizon"
        in verdict.reason
    )
    hp.set_reader(name, "crm", Positions("", {"0": 2}), T0)
    waited = {r.reader: r.waited_for for r in hp.readers(name, later)}
    assert waited == {"audit": True, "billing": False, "crm": True}
    hp.remove_reader(name, "crm")
    assert "yes" in said("list", name, "--now", str(later)).stdout
    hp.set_reader(name, "audit", Positions("", {"0": 3}), later)
    report = hp.expire_tombstones(name, later)
    assert (report.notes, offsets(table)) == ((), [2, 3])


@pytest.mark.spark
def test_a_reader_that_never_comes_is_waited_for_up_to_the_limit(hp):
    table = with_tombstones(hp.catalog, horizon_readers_limit_ms=DAY, idle_tombstones="expire")
    name = name_of(table)
    hp.clean(hp.plan(name, T0))
    hp.set_reader(name, "lost", Positions("", {"0": 0}), T0)
    limit = T0 + HOUR + DAY
    plan = hp.plan(name, limit - 1)
    assert not plan.doing("expire")
    assert next(p.until for p in plan.logs if p.partition == 0) == limit
    assert hp.plan(name, limit).doing("expire")
    report = hp.expire_tombstones(name, limit)
    assert offsets(table) == [2, 3]
    assert report.notes == (
        f"partition 0: tombstones up to offset 2 go, though reader lost goes on at 0: {DAY} ms have passed since their "
        "horizon (horizon.readers.limit.ms)",
    )


@pytest.mark.spark
def test_nobody_is_waited_for_unless_asked(hp):
    table = with_tombstones(hp.catalog, horizon_readers="ignore")
    name = name_of(table)
    hp.clean(hp.plan(name, T0))
    hp.set_reader(name, "slow", Positions("", {"0": 0}), T0)
    hp.expire_tombstones(name, T0 + HOUR)
    assert offsets(table) == [2, 3]


def test_a_reader_is_set_listed_and_removed(catalog, said):
    name = name_of(with_tombstones(catalog))
    done = said("set", name, "billing", "-p", "0", "--offset", "2", "--now", str(T0))
    assert done.stdout == f"{name}: reader billing goes on at 2 of 0\n"
    assert said("set", name, "billing", "-p", "1", "--offset", "1", "--now", str(T0)).exit_code == 0
    told = json.loads(said("list", name, "--json").stdout)
    assert [(r["partition"], r["position"], r["log_end"], r["at"]) for r in told] == [("0", 2, 4, T0), ("1", 1, 1, T0)]
    shown = said("list", name).stdout
    assert "billing" in shown
    assert "by hand" in shown
    assert "no tombstone waits for reader billing" in said("remove", name, "billing").stdout
    assert json.loads(said("list", name, "--json").stdout) == []


def test_what_is_no_position_is_told_in_a_sentence(catalog, said):
    table = with_tombstones(catalog)
    name = name_of(table)
    assert said("set", name, "r", "-p", "0", "--offset", "2").exit_code == 0
    wrong = {
        ("set", name, "r", "-p", "0", "--offset", "1"): "reader r goes on at offset 2 of partition 0 and cannot go "
        "back to 1; remove it first if it reads anew",
        ("set", name, "r", "-p", "7", "--offset", "1"): "there is no partition 7",
        ("set", name, "r", "-p", "0", "--offset", "-1"): "reader r cannot go on at offset -1, expected 0 to",
        ("set", name, "a/b", "--offset", "1"): "'a/b' cannot be a reader's name",
        ("set", name, "r"): "give one of --offset, --group and --checkpoint",
        ("set", name, "r", "--offset", "3", "--group", "a/b/c"): "give one of --offset, --group and --checkpoint",
        ("set", name, "r", "-p", "0", "--group", "a/b/c"): "-p goes with --offset",
        ("set", name, "r", "--offset", str(2**63)): "cannot go on at offset 9223372036854775808, expected 0 to",
        ("set", name, "r", "--offset", "3", "--command-config", "x"): "--command-config goes with --group",
        ("set", name, "r", "--group", "kafka:9092/orders"): "names no group and topic of a broker",
        ("set", name, "r", "--checkpoint", "/none"): "is no checkpoint of a Spark stream that has finished a batch",
        ("remove", name, "none"): "there is no reader none",
        ("set", "t.none", "r", "--offset", "1"): "t.none",
    }
    for words, sentence in wrong.items():
        found = said(*words)
        assert isinstance(found.exception, BadInput), words
        assert sentence in str(found.exception)
    empty = name_of(new_topic(catalog))
    assert "the table has no log yet" in str(said("set", empty, "r", "--offset", "1").exception)


def test_a_position_that_cannot_be_read_is_set_anew_or_removed(catalog, said):
    table = with_tombstones(catalog)
    name = name_of(table)
    table.transaction().set_properties({"hardpack.reader.r:0": "{", "hardpack.reader.a b:0": "{"}).commit_transaction()
    told = str(said("list", name).exception)
    assert "table property hardpack.reader.a b:0 cannot be read" in told
    assert f"remove it with `hardpack reader remove {name} a b`" in told
    assert said("remove", name, "a b").exit_code == 0
    assert said("set", name, "r", "-p", "0", "--offset", "2").exit_code == 0
    assert [r["position"] for r in json.loads(said("list", name, "--json").stdout)] == [2]


def test_of_two_that_are_recorded_at_once_none_is_lost(catalog, cold):
    table = with_tombstones(catalog)
    one, other = (cold.session(name_of(table)) for _ in range(2))
    readers.set_reader(one, "billing", Positions("", {"0": 5}), T0)
    readers.set_reader(other, "billing", Positions("", {"1": 7}), T0)
    assert {r.partition: r.position for r in cold.readers(name_of(table))} == {"0": 5, "1": 7}


def test_the_same_position_again_changes_nothing(catalog, cold):
    table = with_tombstones(catalog)
    for _ in range(2):
        cold.set_reader(name_of(table), "r", Positions("", {"0": 2}))
        where = table.refresh().metadata_location
    cold.set_reader(name_of(table), "r", Positions("", {"0": 2}))
    assert table.refresh().metadata_location == where


def test_partitions_of_a_topic_are_the_tables_logs_by_its_names_for_them(catalog):
    session = session_of(with_tombstones(catalog))
    assert readers._by_log(session, "orders", {1: 5, 0: 3}) == {"0": 3, "1": 5}
    assert readers._by_log(session, "orders", {1: 5, 7: 3}) == {"1": 5, "7": 3}
    with pytest.raises(BadInput, match="no log is a partition of topic orders, the table has 0, 1"):
        readers._by_log(session, "orders", {7: 3})


@pytest.mark.spark
def test_a_reader_that_is_recorded_during_phase_two_keeps_its_tombstones(hp, meanwhile):
    table = with_tombstones(hp.catalog)
    name = name_of(table)
    hp.clean(hp.plan(name, T0))
    meanwhile(lambda: hp.set_reader(name, "late", Positions("", {"0": 1}), T0))
    with pytest.raises(Conflict, match="reader late was recorded in partition 0 meanwhile"):
        hp.expire_tombstones(name, T0 + HOUR)
    assert offsets(table) == [1, 2, 3]


def test_a_reader_is_no_setting(catalog, cold):
    table = with_tombstones(catalog)
    cold.set_reader(name_of(table), "r", Positions("", {"0": 2}))
    described = cold.describe(name_of(table))
    assert described.readers == {"r": {"0": 2}}
    assert not [s.name for s in described.settings if "reader." in s.name]
    with pytest.raises(BadInput, match=r"hardpack\.reader\.r is kept by hardpack"):
        cold.adopt(name_of(table), {"reader.r": "{}"})


def test_a_source_that_goes_back_is_believed_and_told(catalog, cold):
    name = name_of(with_tombstones(catalog))
    assert cold.set_reader(name, "r", Positions("group a/b/c", {"0": 3, "1": 1})) == []
    assert cold.set_reader(name, "r", Positions("group a/b/c", {"0": 2})) == ["0"]
    assert {r.partition: r.position for r in cold.readers(name)} == {"0": 2, "1": 1}


def test_a_broker_that_does_not_answer(catalog, monkeypatch):
    for module in (broker, readers):
        monkeypatch.setattr(module, "SECONDS", 1)
    with pytest.raises(Unavailable, match="the broker does not answer"):
        group_offsets(session_of(with_tombstones(catalog)), "127.0.0.1:9/billing/orders")


@pytest.mark.parametrize(
    ("mode", "text", "words"),
    [
        (0o600, "ssl.engine.location=x.so", "ssl.engine.location makes the client run what lies there"),
        (0o666, "client.id=me", "writable by nobody else"),
    ],
)
def test_a_file_of_client_properties_makes_nobody_run_what_others_put_there(tmp_path, mode, text, words):
    path = tmp_path / "client.properties"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(BadInput, match=words):
        broker.admin_client("127.0.0.1:9", path)


@pytest.mark.kafka
def test_a_group_of_a_real_broker(catalog):
    from confluent_kafka import Consumer, Producer, TopicPartition

    session = session_of(with_tombstones(catalog))
    with Broker(ROOT / ".hardpack") as running:
        running.create_topic("orders", 2, {})
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for n in range(5):
            producer.produce("orders", f"v{n}", "k", 0)
        assert producer.flush(30) == 0
        place = f"{running.bootstrap}/billing/orders"
        with pytest.raises(BadInput, match="the group has committed no offset of the topic"):
            group_offsets(session, place)
        group = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "billing", "enable.auto.commit": False})
        group.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        group.close()
        assert group_offsets(session, place) == Positions(f"group {place}", {"0": 3, "1": 0})
        source = ReaderSource(table=session.name, name="billing", group=place)
        (followed,) = Hardpack(catalog).follow_readers([source], T0)
        assert followed.said == f"{session.name}: reader billing goes on at 3 of 0, 0 of 1"
        assert {r.partition: r.position for r in Hardpack(catalog).readers(session.name)} == {"0": 3, "1": 0}
        with pytest.raises(BadInput, match="the broker has no such topic"):
            group_offsets(session, f"{running.bootstrap}/billing/none")


@pytest.mark.spark
def test_a_stream_of_the_table_tells_how_far_it_is(hp, tmp_path):
    table = with_tombstones(hp.catalog, active_segment="none")
    name, place = name_of(table), str(tmp_path / "checkpoint")

    def read():
        stream = hp.spark.readStream.option("streaming-skip-overwrite-snapshots", "true").table(f"hardpack.{name}")
        run = stream.writeStream.option("checkpointLocation", place).trigger(availableNow=True)
        run.format("noop").start().awaitTermination()

    read()
    found = checkpoint_positions(hp.session(name), place)
    assert found == Positions(f"checkpoint {place}", {"0": 4, "1": 1})
    append(table.refresh(), {0: [row(9, "z")]})
    hp.clean(hp.plan(name, T0))
    assert checkpoint_positions(hp.session(name), f"file://{place}").offsets == {"0": 9, "1": 1}
    read()
    assert checkpoint_positions(hp.session(name), place).offsets == {"0": 10, "1": 1}
    append(table.refresh(), {0: [row(5, "late")], 1: [row(1, "d")]})
    assert checkpoint_positions(hp.session(name), place).offsets == {"0": 5, "1": 1}
    other = with_tombstones(hp.catalog)
    with pytest.raises(BadInput, match="tells of no kept snapshot of the table"):
        checkpoint_positions(hp.session(name_of(other)), place)
