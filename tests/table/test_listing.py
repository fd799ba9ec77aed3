"""Which tables there are and where they lie: nested namespaces, views, what cannot be read, what is asked how often."""

import logging
import subprocess
import sys
import time
from pathlib import Path
from threading import Barrier, Event

import pytest
from botocore.exceptions import ClientError
from hardpack import Hardpack
from hardpack.compaction.plan import Plan
from hardpack.errors import BadInput, Unavailable, Unreadable
from hardpack.operations import plan_tables
from hardpack.operations.known_tables import adopted_tables, find_topics, note_adopted
from hardpack.operations.plan_tables import Look, NotAdopted, PlanCache
from hardpack.policy import Policy
from hardpack.table import catalog as door
from hardpack.table.catalog import (
    allowed_places,
    find_tables,
    metadata_locations,
    open_catalog,
    open_table,
    table_places,
)
from hardpack.table.guard import GuardedRestCatalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from sqlalchemy import text

from tests.rest_catalog import beside_a_silent_one, config, error, loaded, rest_server
from tests.topics import T0, append, name_of, new_topic, row


class Nested:
    """A catalog with namespaces in namespaces, of which one may not be listed and one is no parent."""

    name, properties = "nested", {"uri": "nested", "warehouse": "w"}

    def __init__(self, forbidden=("secret",)):
        self.forbidden, self.loaded = forbidden, []

    def list_namespaces(self, namespace=()):
        inside = {(): [("a",), ("secret",)], ("a",): [("a", "b")], ("a", "b"): [("a",)]}
        return inside.get(namespace, [])

    def list_tables(self, namespace):
        if namespace[0] in self.forbidden:
            raise ForbiddenError("no")
        return [(*namespace, "t")]

    def load_table(self, name):
        self.loaded.append(name)
        raise FileNotFoundError(name)

    def load_namespace_properties(self, namespace):
        return {"location": f"s3://lake/{'/'.join(namespace)}"}


def test_tables_of_nested_namespaces_are_found_and_forbidden_ones_passed_over(caplog):
    assert find_tables(Nested(), "*.*") == ["a.b.t", "a.t"]
    assert find_tables(Nested(), "a.b.*") == ["a.b.t"]
    assert "namespace secret may not be listed" in caplog.text
    with pytest.raises(Unavailable, match="may not be listed"):
        find_tables(Nested(forbidden=("a", "secret")), "*.*")


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "hive", "uri": "thrift://127.0.0.1:9"},
        {"type": "rest", "uri": "foo"},
        {"type": "sql", "uri": "mysql+nothing://127.0.0.1/x"},
        {"type": "glue"},
    ],
    ids=lambda p: p["type"],
)
def test_what_no_waiting_mends_is_bad_input(monkeypatch, properties):
    """A driver that is not there, an address that is none, a region that nobody names."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(BadInput, match="catalog 'wrong' cannot be opened"):
        open_catalog("wrong", properties)


def test_a_name_with_signs_of_globs_names_its_own_table(lakehouse):
    lakehouse.create_namespace("t")
    names = ["t.br[red]ack", "t.s1", "t.st*r", "t.star"]
    for name in names:
        lakehouse.create_table(name, Schema(NestedField(1, "a", LongType())))
    assert find_tables(lakehouse, "t.br[red]ack") == ["t.br[red]ack"]
    assert find_tables(lakehouse, "t.st*r") == ["t.st*r", "t.star"]
    assert find_tables(lakehouse, "t.s*") == ["t.s1", "t.st*r", "t.star"]
    assert Policy(name="a", tables=["t.br[red]ack"]).names("t.br[red]ack")
    nested = Nested()
    assert find_tables(nested, "a.b.[t]") == ["a.b.t"]


def test_sql_lists_nested_namespaces_in_one_question_and_no_views(lakehouse):
    lakehouse.create_namespace("a.b.c")
    lakehouse.create_table("a.b.c.t", new_topic(lakehouse).schema())
    view = "insert into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
    with lakehouse.engine.begin() as connection:
        connection.execute(text(view + "values ('own', 'a', 'seen', 'file:///v.json', 'VIEW')"))
    assert find_tables(lakehouse, "a.*") == ["a.b.c.t"]
    assert "a.seen" not in metadata_locations(lakehouse)
    with pytest.raises(Unreadable, match="views are none"):
        open_table(lakehouse, "a.seen")


@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
def test_a_database_of_glue_that_may_not_be_listed_hides_no_other(code, caplog):
    class Client:
        databases = ("open", "secret")

        def get_databases(self, **_):
            return {"DatabaseList": [{"Name": name} for name in self.databases]}

        def get_paginator(self, _):
            return self

        def paginate(self, DatabaseName):
            if DatabaseName == "secret":
                raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetTables")
            yield {"TableList": [{"Name": "t", "Parameters": {"table_type": "ICEBERG", "metadata_location": "s3://x"}}]}

    glue = GlueCatalog("g", client=Client(), **{"glue.region": "eu-1"})
    if code != "AccessDeniedException":
        with pytest.raises(Unavailable):
            find_tables(glue, "*.*")
        return
    assert find_tables(glue, "*.*") == ["open.t"]
    assert "database secret may not be listed" in caplog.text
    Client.databases = ("secret",)
    with pytest.raises(Unavailable):
        find_tables(glue, "*.*")


def test_glue_tells_where_all_metadata_lies_without_loading_tables():
    def entry(name, kind):
        return {"Name": name, "Parameters": {"table_type": kind, "metadata_location": f"s3://l/{name}/metadata/1.json"}}

    class Client:
        def get_databases(self, **_):
            return {"DatabaseList": [{"Name": "db"}]}

        def get_paginator(self, what):
            assert what == "get_tables"
            return self

        def paginate(self, **asked):
            assert asked == {"DatabaseName": "db"}
            yield {"TableList": [entry("t", "ICEBERG"), entry("hive", "EXTERNAL")]}
            yield {"TableList": [entry("u", "iceberg"), {"Name": "bare"}]}

    glue = GlueCatalog("g", client=Client(), **{"glue.region": "eu-1"})
    assert find_tables(glue, "*.*") == ["db.t", "db.u"]
    assert table_places(glue) == {"db.t": "s3://l/t", "db.u": "s3://l/u"}


def test_a_table_with_metadata_elsewhere_lies_where_it_says(catalog, monkeypatch):
    """Else it would seem to lie where others do, and nothing of theirs went, or beside what it lies in."""
    monkeypatch.setattr(door, "_places", {})
    plain, elsewhere = new_topic(catalog), new_topic(catalog)
    root = plain.location().rpartition("/")[0]
    for folder in (f"{root}/metadata/of_it", f"{root}/others"):
        with elsewhere.transaction() as change:
            change.set_properties({"write.metadata.path": folder})
        assert elsewhere.metadata_location.startswith(folder)
        places = table_places(catalog)
        assert (places[name_of(plain)], places[name_of(elsewhere)]) == (plain.location(), elsewhere.location())


def test_where_tables_of_rest_lie_is_asked_once_by_a_process(catalog, monkeypatch):
    monkeypatch.setattr(door, "_places", {})
    table, asked = new_topic(catalog), []
    answers = {
        "/v1/config": config(),
        "/v1/namespaces": (200, {"namespaces": [["db"]]}),
        "/v1/namespaces/db/tables": (
            200, {"identifiers": [{"namespace": ["db"], "name": "t"}, {"namespace": ["db"], "name": "gone"}]},
        ),
        "/v1/namespaces/db/tables/t": loaded(table, {}, {}),
    }  # fmt: skip
    with rest_server(answers) as uri:
        rest = GuardedRestCatalog("r", uri=uri)
        real = rest.load_table
        monkeypatch.setattr(rest, "load_table", lambda name: asked.append(name) or real(name))
        assert table_places(rest) == {"db.t": table.location()}, "what cannot be read does not hide the others"
        assert table_places(rest) == {"db.t": table.location()}
    assert asked.count("db.t") == 1


@pytest.mark.parametrize("ask", [table_places, lambda catalog: find_topics(catalog, ["*.*"], Path("none"))])
def test_tables_are_loaded_side_by_side_where_all_of_them_are(ask, monkeypatch):
    class Meeting(Nested):
        both = Barrier(2)

        def load_table(self, name):
            self.both.wait(timeout=10)
            super().load_table(name)

    asked = Meeting()
    monkeypatch.setattr(door, "SIDE_BY_SIDE", (Meeting,))
    ask(asked)
    assert not asked.both.broken
    assert set(asked.loaded) == {"a.b.t", "a.t"}


def test_a_client_that_serves_one_thread_is_asked_one_question_at_a_time():
    """Hive's has one connection, which each question opens and closes."""

    class Alone(Nested):
        asked, most = 0, 0

        def load_table(self, name):
            self.asked += 1
            self.most = max(self.most, self.asked)
            time.sleep(0.05)
            self.asked -= 1
            super().load_table(name)

    catalog = Alone()
    table_places(catalog)
    find_topics(catalog, ["*.*"], Path("none"))
    assert (catalog.most, len(catalog.loaded)) == (1, 4)


def test_threads_that_wait_for_a_catalog_keep_no_process_from_ending():
    code = (
        "import time; from pyiceberg.catalog.sql import SqlCatalog; from hardpack.table.catalog import asked_ahead\n"
        "catalog = SqlCatalog('own', uri='sqlite:///:memory:', warehouse='/tmp')\n"
        "asked = asked_ahead(catalog, lambda name: name == 'a' or time.sleep(60), list('abcdefghij'))\n"
        "assert next(asked).result()\n"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
    assert time.monotonic() - began < 40


def test_remembered_places_are_bounded(catalog, monkeypatch):
    monkeypatch.setattr(door, "_places", {})
    monkeypatch.setattr(door, "MOST_PLACES", 2)
    names = [name_of(new_topic(catalog)) for _ in range(3)]
    for name in names:
        open_table(catalog, name)
    assert [name for *_, name in door._places] == names[1:]


def test_where_maintenance_may_delete_is_the_catalogs_to_say(lakehouse):
    lakehouse.properties["hardpack.locations"] = " s3://a/b , s3://c,"
    assert allowed_places(lakehouse, "db.t") == ["s3://a/b", "s3://c", lakehouse.properties["warehouse"]]
    assert allowed_places(Nested(), "a.b.t") == ["s3://lake/a/b"], "a warehouse that is a name is no folder"


def broken(table):
    Path(table.metadata_location.removeprefix("file://")).unlink()
    return name_of(table)


def busy(catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a")]})
    append(table, {0: [row(1, "a")]})
    return table


def test_an_unreadable_table_that_nobody_adopted_fails_no_look(lakehouse):
    good, bad = name_of(busy(lakehouse)), broken(busy(lakehouse))
    hp = Hardpack(lakehouse)
    found = dict(PlanCache().plans(hp, Look(["*.*"], T0)))
    assert isinstance(found[good], Plan)
    assert isinstance(found[bad], NotAdopted)
    assert isinstance(dict(PlanCache().plans(hp, Look(["*.*", bad], T0)))[bad], Unreadable), (
        "named plainly it is an error"
    )
    assert hp.tables("*.*") == [good]
    assert [s.table for s in hp.status("*.*")] == [good]


def test_an_adopted_table_that_breaks_fails_the_next_looks(lakehouse):
    table, cache, hp = busy(lakehouse), PlanCache(), Hardpack(lakehouse)
    busy(lakehouse)
    assert len(list(cache.plans(hp, Look(["*.*"], T0)))) == 2
    append(table, {0: [row(2, "a")]})
    name = broken(table)
    for _ in range(2):
        assert isinstance(dict(cache.plans(hp, Look(["*.*"], T0)))[name], Unreadable)


def test_when_no_table_can_be_read_the_look_fails(lakehouse):
    """Credentials that lost their rights make every table unreadable; that must not pass for nothing to do."""
    names = [broken(busy(lakehouse)) for _ in range(2)]
    found = dict(PlanCache().plans(Hardpack(lakehouse), Look(["*.*"], T0)))
    assert sorted(found) == sorted(names)
    assert Hardpack(lakehouse).tables("*.*") == sorted(names)


def test_an_outage_of_what_may_be_adopted_is_never_passed_over(catalog, tmp_path):
    answers = beside_a_silent_one(new_topic(catalog))
    with rest_server(answers) as uri:
        hp = Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path)
        found = dict(PlanCache().plans(hp, Look(["*.*"], T0)))
        assert isinstance(found["db.u"], Unavailable)
        # by now it is known which tables are adopted, and that this one is not among them
        assert isinstance(dict(PlanCache().plans(hp, Look(["*.*"], T0)))["db.u"], NotAdopted)
        # of the tables of another policy nobody knows it yet
        other = Look(["db.u*"], T0)
        assert isinstance(dict(PlanCache().plans(hp, other))["db.u"], Unavailable)
        note_adopted(tmp_path, "r", {"db.u": True})
        assert isinstance(dict(PlanCache().plans(hp, Look(["*.*"], T0)))["db.u"], Unavailable)


def test_adopted_tables_of_a_namespace_that_may_no_longer_be_listed_are_not_forgotten(catalog, tmp_path):
    answers = {
        "/v1/config": config(),
        "/v1/namespaces": (200, {"namespaces": [["crm"], ["shop"]]}),
        "/v1/namespaces/crm/tables": (200, {"identifiers": [{"namespace": ["crm"], "name": "a"}]}),
        "/v1/namespaces/crm/tables/a": loaded(new_topic(catalog), {}, {}),
        "/v1/namespaces/shop/tables": (403, error("Forbidden", 403)),
        "/v1/namespaces/shop/tables/denied": (403, error("Forbidden", 403)),
        "/v1/namespaces/shop/tables/gone": (404, error("NoSuchTable", 404)),
        "/v1/namespaces/shop/tables/readable": loaded(new_topic(catalog), {}, {}),
    }  # fmt: skip
    adopted = {"crm.a", "shop.denied", "shop.gone", "shop.readable"}
    note_adopted(tmp_path, "r", dict.fromkeys(adopted, True))
    with rest_server(answers) as uri:
        hp = Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path)
        found = dict(PlanCache().plans(hp, Look(["*.*"], T0)))
        assert hp.tables("*.*") == ["crm.a", "shop.denied", "shop.readable"]
    assert isinstance(found["shop.denied"], Unreadable)
    assert isinstance(found["shop.readable"], Plan)
    assert found.keys() == {"crm.a", "shop.denied", "shop.readable"}
    assert adopted_tables(tmp_path, "r") == adopted - {"shop.gone"}


def test_while_a_table_is_planned_the_next_ones_are_opened(lakehouse, monkeypatch):
    busy(lakehouse)
    busy(lakehouse)
    both, real = Barrier(2), plan_tables.open_table

    def meeting(catalog, name):
        both.wait(timeout=10)
        return real(catalog, name)

    monkeypatch.setattr(plan_tables, "open_table", meeting)
    assert all(isinstance(plan, Plan) for _, plan in PlanCache().plans(Hardpack(lakehouse), Look(["*.*"], T0)))


def test_a_look_that_is_cut_off_does_not_wait_for_tables_that_are_being_opened(lakehouse, monkeypatch):
    for _ in range(3):
        busy(lakehouse)
    let_go, real = Event(), plan_tables.open_table
    first = sorted(find_tables(lakehouse, "*.*"))[0]
    monkeypatch.setattr(
        plan_tables, "open_table", lambda c, name: (name == first or let_go.wait(timeout=30), real(c, name))[1]
    )
    monkeypatch.setattr(door, "OPENED_AT_ONCE", 2)
    looking = PlanCache().plans(Hardpack(lakehouse), Look(["*.*"], T0))
    began = time.monotonic()
    next(looking)
    looking.close()
    assert time.monotonic() - began < 10
    let_go.set()


def test_a_warning_says_which(lakehouse, caplog):
    caplog.set_level(logging.WARNING)
    busy(lakehouse)
    bad = broken(busy(lakehouse))
    assert bad not in Hardpack(lakehouse).tables("*.*")
    assert f"{bad}: the table's metadata file is missing" in caplog.text
