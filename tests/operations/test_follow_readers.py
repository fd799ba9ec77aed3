"""Readers that a policy names: asked when their answer counts, each by itself; no broker is asked here."""

import json
from types import SimpleNamespace

import pytest
from hardpack import Hardpack
from hardpack.cli.main import app
from hardpack.errors import Unavailable
from hardpack.operations import follow_readers, readers
from hardpack.operations.readers import Positions
from hardpack.rules.model import LogState
from hardpack.rules.reader_source import ReaderSource
from hardpack.rules.times import LONG_MAX
from hardpack.table.state import STATE_PROPERTY, write_state
from typer.testing import CliRunner

from tests.topics import T0, append, name_of, new_topic, row


@pytest.fixture
def broker(monkeypatch):
    """Offsets by group, or the error of asking; and which groups were asked."""
    told, asked = {}, []

    def group_offsets(session, place, command_config=None):
        asked.append(place)
        if isinstance(told[place], Exception):
            raise told[place]
        return Positions(f"group {place}", told[place])

    monkeypatch.setattr(follow_readers, "group_offsets", group_offsets)
    return told, asked


def topic(catalog, **settings):
    table = new_topic(catalog, horizon_readers="wait", idle_tombstones="expire", **settings)
    append(table, {0: [row(0, "a"), row(1, "a", None)]})
    return table


def with_a_tombstone(table):
    """As a pass leaves it that saw one."""
    with table.transaction() as change:
        state = LogState(checkpoint=2, horizons=((1, T0),))
        change.set_properties({STATE_PROPERTY: write_state({"0": state})})


def source(table, group="b/billing/t", name="billing"):
    return ReaderSource(table=name_of(table), name=name, group=group)


def test_a_reader_is_asked_at_first_and_then_while_tombstones_wait(catalog, cold, broker):
    told, asked = broker
    table = topic(catalog)
    told["b/billing/t"] = {"0": 1}
    (first,) = cold.follow_readers([source(table)], T0)
    assert (first.said, first.exit_code) == (f"{name_of(table)}: reader billing goes on at 1 of 0", 0)
    location = table.refresh().metadata_location
    (again,) = cold.follow_readers([source(table)], T0)
    assert again.said == f"{name_of(table)}: no tombstone waits for reader billing"
    assert (len(asked), table.refresh().metadata_location) == (1, location)
    with_a_tombstone(table)
    told["b/billing/t"] = {"0": 2}
    list(cold.follow_readers([source(table)], T0 + 1))
    assert [(r.position, r.at) for r in cold.readers(name_of(table))] == [(2, T0 + 1)]


def test_no_delete_goes_before_a_reader_that_was_never_asked(catalog, cold, broker):
    told, _ = broker
    table = topic(catalog)
    name = name_of(table)
    with_a_tombstone(table)
    told["b/billing/t"] = Unavailable("away.")
    assert cold.plan(name, T0 + 1).doing("expire")
    list(cold.follow_readers([source(table)], T0))
    assert not cold.plan(name, T0 + 1).doing("expire")
    told["b/billing/t"] = {"0": 2}
    list(cold.follow_readers([source(table)], T0))
    assert cold.plan(name, T0 + 1).doing("expire")
    told["b/billing/t"] = Unavailable("away.")
    list(cold.follow_readers([source(table)], T0))
    assert [r.position for r in cold.readers(name)] == [2]


def test_a_log_of_which_its_source_tells_nothing_makes_no_commit(catalog, cold, broker):
    told, asked = broker
    table = topic(catalog)
    append(table, {1: [row(0, "b")]})
    told["b/billing/t"] = {"0": 1}
    list(cold.follow_readers([source(table)], T0))
    location = table.refresh().metadata_location
    told["b/billing/t"] = {"0": 2}
    list(cold.follow_readers([source(table)], T0))
    assert table.refresh().metadata_location == location
    assert len(asked) == 1


def test_a_log_of_another_topic_waits_for_nobody_whose_group_reads_one(catalog, cold, broker):
    told, _ = broker
    table = topic(catalog)
    append(table, {1: [row(0, "b")]})
    name = name_of(table)
    told["b/billing/t"] = Unavailable("away.")
    list(cold.follow_readers([source(table)], T0))
    assert {r.partition: r.position for r in cold.readers(name)} == {"0": 0, "1": 0}
    # once it answers, what it does not know waits for nobody
    told["b/billing/t"] = {"0": 2}
    list(cold.follow_readers([source(table)], T0))
    assert {r.partition: r.position for r in cold.readers(name)} == {"0": 2, "1": LONG_MAX}
    assert {r.partition: r.source for r in cold.readers(name)}["1"] == follow_readers.NO_SUCH


@pytest.mark.parametrize(
    ("log", "columns", "topic", "knows"),
    [
        ("3", 1, "orders", True),
        ("orders-3", 1, "orders", True),
        ("orders-3", 2, "orders", True),
        ("items-3", 2, "orders", False),
        ("items-3", 1, "orders", False),
        ("3", 2, "orders", False),
        ("a-b-3", 2, "a-b", True),
    ],
)
def test_of_which_topics_a_log_may_be(monkeypatch, log, columns, topic, knows):
    found = SimpleNamespace(log=SimpleNamespace(columns=("x",) * columns))
    monkeypatch.setattr(readers.LogColumns, "of", lambda *_: found)
    session = SimpleNamespace(table=SimpleNamespace(schema=lambda: None), settings=None)
    assert readers.may_be_of(session, topic, log) == knows


def test_a_log_that_begins_later_is_asked_for(catalog, cold, broker):
    told, _ = broker
    table = topic(catalog)
    told["b/billing/t"] = {"0": 1, "1": 0}
    cold.set_reader(name_of(table), "billing", Positions("group b/billing/t", {"0": 1}), T0)
    append(table.refresh(), {1: [row(0, "b")]})
    list(cold.follow_readers([source(table)], T0))
    assert {r.partition: r.position for r in cold.readers(name_of(table))} == {"0": 1, "1": 0}


def test_one_that_cannot_be_asked_holds_up_no_other(catalog, cold, broker):
    told, _ = broker
    one, other = topic(catalog), topic(catalog)
    told |= {"b/away/t": Unavailable("b/away/t: the broker does not answer."), "b/billing/t": {"0": 1}}
    lost = ReaderSource(table="t.lost", name="r", group="b/billing/t")
    found = list(cold.follow_readers([source(one, "b/away/t"), lost, source(other)], T0))
    assert [f.exit_code for f in found] == [5, 2, 0]
    assert found[0].said == "b/away/t: the broker does not answer. Reader billing could not be asked."
    assert "t.lost" in found[1].said
    assert [(r.position, r.source) for r in cold.readers(name_of(one))] == [(0, follow_readers.UNASKED)]
    assert [r.position for r in cold.readers(name_of(other))] == [1]


def test_one_that_goes_back_is_believed_and_told(catalog, cold, broker):
    told, _ = broker
    table = topic(catalog)
    with_a_tombstone(table)
    for offset in (2, 1):
        told["b/billing/t"] = {"0": offset}
        (found,) = cold.follow_readers([source(table)], T0)
    assert found.said.endswith("goes on at 1 of 0; it went back in 0, so deletes that it has not seen may be gone")


def test_where_nothing_waits_for_readers_that_is_said(catalog, cold, broker):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    (found,) = cold.follow_readers([source(table)], T0)
    assert "as horizon.readers is ignore" in found.said
    assert broker[1] == []


def test_the_command_asks_those_that_policies_name(catalog, lake, broker, tmp_path, monkeypatch):
    told, _ = broker
    one, other = topic(catalog), topic(catalog)
    told |= {"b/billing/t": {"0": 1}, "b/away/t": Unavailable("the broker does not answer.")}
    readers = [source(one), source(other, "b/away/t", "crm")]
    policy = {"name": "a", "tables": ["t.*"], "readers": [r.model_dump(exclude_defaults=True) for r in readers]}
    path = tmp_path / "policies.yaml"
    path.write_text(json.dumps({"policies": [policy]}))
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))

    def said(*words):
        return CliRunner().invoke(app, ["reader", "follow", *words], env={"COLUMNS": "200"})

    both = said()
    assert both.exit_code == 5
    assert f"{name_of(one)}: reader billing goes on at 1 of 0" in both.stdout
    assert "the broker does not answer. Reader crm could not be asked." in both.stdout
    assert said(name_of(one)).exit_code == 0
    # a wrong policy keeps nobody else's readers from being asked, and does not concern the tables of others
    wrong = {"name": "b", "tables": ["crm.*"], "schedule": "never"}
    path.write_text(json.dumps({"policies": [policy | {"readers": policy["readers"][:1]}, wrong]}))
    assert said(name_of(one)).exit_code == 0
    every = said()
    assert every.stdout.startswith(f"{name_of(one)}: ")
    assert "'never' is no cron expression" in str(every.exception)
    assert "no policy names a reader of t.none" in str(said("t.none").exception)
