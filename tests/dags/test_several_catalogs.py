"""Policies of two catalogs in one Airflow: each is looked at, cleaned and shown where it is."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from hardpack.policy.file import load_policies

from tests.topics import T0, append, create_topic, row

pytestmark = pytest.mark.dags

FILE = """
policies:
  - {name: east, catalog: east, tables: ["*.*"], order: overdue, settings: {min.cleanable.dirty.ratio: 0}}
  - {name: west, catalog: west, tables: ["*.*"], schedule: "", settings: {min.cleanable.dirty.ratio: 1}}
"""


@pytest.fixture
def lakes(tmp_path, own_homes, monkeypatch):
    """Two catalogs with a table of one name, which is due by the rules of the one alone; `far` is in the second."""
    from pyiceberg.catalog import load_catalog

    (tmp_path / "hardpack.yaml").write_text(FILE)
    monkeypatch.setattr("hardpack_airflow.config._SHOWN", [])
    found = {}
    for name in ("east", "west"):
        found[name] = load_catalog(
            name, type="sql", uri=f"sqlite:///{tmp_path}/{name}.db", warehouse=f"file://{tmp_path}/{name}"
        )
        table = create_topic(found[name], "db.same", {})
        for offset in range(2):
            append(table, {0: [row(offset, "a")]})
    create_topic(found["west"], "db.far", {})
    for place in ("hardpack.api.open_catalog", "hardpack.table.catalog.open_catalog"):
        monkeypatch.setattr(place, lambda name, properties=None: found[name])
    return found


def test_a_policy_finds_its_work_in_its_catalog_by_its_own_settings(lakes, tmp_path):
    from hardpack_airflow.planning import plan_units
    from hardpack_airflow.sensor import asked

    due = {}
    for policy in load_policies(tmp_path / "hardpack.yaml").policies:
        context = {"dag_run": Run()}
        question = asked(policy.model_dump_json(by_alias=True), "*.*", "[]", "false", context)
        assert question["catalog"] == policy.name
        seen = plan_units(**question)
        due[policy.name] = [json.loads(plan)["table"] for unit in seen["units"] for plan in unit["plans"]]
        assert seen["errors"] == []
        assert not [line for line in seen["reasons"] if "is cleaned by policy" in line]
    assert due == {"east": ["db.same"], "west": []}


class Run:
    """A run by hand."""

    run_type = "manual"

    @property
    def run_after(self):
        from datetime import UTC, datetime

        return datetime.fromtimestamp(T0 / 1000, UTC)


def test_the_tasks_of_a_policy_work_in_its_catalog(lakes):
    from hardpack_airflow import policy_dags

    dags = policy_dags()
    tasks = [dags["hardpack_west"].get_task(f"unit.{verb}") for verb in ("phase_one", "phase_two", "verify")]
    assert [task.catalog for task in tasks] == ["west"] * 3
    assert dags["hardpack_by_hand"].params.get_param("catalog").schema["enum"] == ["east", "west"]
    assert dags["hardpack_by_hand"].params["catalog"] == "east"


def test_storage_is_freed_in_every_catalog(lakes):
    from hardpack_airflow.all_tables import table_requests
    from hardpack_airflow.config import catalogs

    requests = [unit for name in catalogs() for unit in table_requests(name, ["db.*"], T0, True)]
    assert [(unit["catalog"], unit["label"]) for unit in requests] == [
        ("east", "db.same"),
        ("west", "db.far; db.same"),
    ]


def test_a_table_that_is_named_plainly_is_looked_for_where_it_is(lakes, monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow import all_tables

    run, ti = Run(), SimpleNamespace(try_number=1, max_tries=2)
    context = {"dag_run": run, "ti": ti, "params": {"tables": "db.far, d?.nothing"}}
    run.dag_id, run.run_id = "hardpack_quality", "manual__1"
    monkeypatch.setattr(all_tables, "get_current_context", lambda: context)
    asked = all_tables.quality_dag().get_task("tables").python_callable
    assert [(unit["catalog"], unit["label"]) for unit in asked()] == [("west", "db.far")]
    for kind, fails in (("manual", True), ("scheduled", False)):
        run.run_type, context["params"]["tables"] = kind, "shpo.*"
        with pytest.raises(AirflowFailException, match="no adopted table matches") if fails else nullcontext():
            assert asked() == []
    # the task of a table that is in no catalog says so, and those of the others go on
    context["params"]["tables"] = "db.far, db.fra, typo"
    assert [(unit["catalog"], unit["label"]) for unit in asked()] == [
        ("east", "typo"),
        ("west", "db.far; typo"),
        ("east", "db.fra"),
    ]


def test_a_catalog_that_cannot_be_opened_fails_its_own_task_and_holds_up_no_other(lakes):
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from hardpack_airflow.all_tables import requests_or_error
    from hardpack_airflow.operators import HardpackOperator

    del lakes["west"]
    east, west = (requests_or_error(name, ["db.*"], T0, True, 500, True) for name in ("east", "west"))
    assert [unit["label"] for unit in east] == ["db.same"]
    assert [unit["label"] for unit in west] == ["catalog west"]
    with pytest.raises(AirflowException, match="west"):
        requests_or_error("west", ["db.*"], T0, True, 500, False)
    with pytest.raises(AirflowFailException, match="west"):
        HardpackOperator(task_id="maintain", verb="maintain", unit=west[0]).execute({})


def test_pages_of_all_catalogs_stay_while_the_file_cannot_be_read(pages, tmp_path):
    from hardpack_airflow import web

    assert "db.far" in pages.get("/").text
    (tmp_path / "hardpack.yaml").write_text("policies: [")
    for name in ("east", "west"):
        web.table_cache(name).tried = 0.0
    page = pages.get("/").text
    assert "db.far" in page
    assert page.count("this is no YAML") == 2
    assert "this is no YAML" in pages.get("/tables/db.far?catalog=west").text


def test_somebody_pauses_a_table_where_it_is(lakes):
    from hardpack import Hardpack
    from hardpack_airflow.by_hand import _changed

    params = {"action": "pause", "table": "db.same", "partitions": [], "trust_late_rows": False}
    assert _changed(params | {"catalog": "west"}) == {"0": "paused 1 times"}
    paused = {name: Hardpack(catalog).status("db.same", T0)[0].reason for name, catalog in lakes.items()}
    assert (paused["west"], paused["east"]) == ("paused", "dirty ratio 1.000 is above 0")


@pytest.fixture
def pages(lakes, pages):
    return pages


def test_pages_show_the_tables_of_all_catalogs_each_with_its_own(pages):
    found = {(one["catalog"], one["table"]): one["due"] for one in pages.get("/api/tables").json()}
    assert found == {("east", "db.same"): 1, ("west", "db.same"): 0, ("west", "db.far"): 0}
    page = pages.get("/", params={"sort": "catalog"}).text
    assert 'href="/hardpack/tables/db.same"' in page
    assert 'href="/hardpack/tables/db.same?catalog=west"' in page
    assert page.index("<td>east</td>") < page.index("<td>west</td>")
    assert "Catalog west: Looked at" in page


def test_a_list_without_the_tables_of_one_catalog_is_none(pages, monkeypatch):
    """Who reads it would take the catalog for empty."""
    from hardpack_airflow.table_cache import TableCache

    real = TableCache._look_at_all
    monkeypatch.setattr(TableCache, "_look_at_all", lambda self: real(self) if self.catalog == "east" else 1 / 0)
    answer = pages.get("/api/tables")
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (503, "catalog west")
    assert [one["table"] for one in pages.get("/api/tables", params={"catalog": "east"}).json()] == ["db.same"]
    assert pages.get("/api/tables", params={"catalog": "north"}).status_code == 404


def test_a_tables_page_stays_in_its_catalog(pages, monkeypatch):
    from hardpack_airflow import actions

    page = pages.get("/tables/db.far?catalog=west").text
    assert "Policy: west." in page
    assert 'action="/hardpack/tables/db.far/pause?catalog=west"' in page
    assert 'href="?sort=rows&amp;catalog=west"' in page
    assert pages.get("/tables/db.far").status_code == 404
    assert pages.get("/tables/db.far?catalog=north").status_code == 404
    assert pages.get("/api/tables/db.far?catalog=west").json()["summary"]["catalog"] == "west"
    asked = []

    async def start(request, dag, form):
        asked.append((dag, form))
        return "run"

    monkeypatch.setattr(actions, "start", start)
    answer = pages.post("/tables/db.same/clean?catalog=west", follow_redirects=False)
    assert answer.headers["location"] == "/hardpack/tables/db.same?dag=hardpack_west&run=run&catalog=west"
    pages.post("/tables/db.same/pause?catalog=west", follow_redirects=False)
    assert asked == [
        ("hardpack_west", {"tables": "db.same", "force": True, "dry_run": False}),
        ("hardpack_by_hand", {"action": "pause", "table": "db.same", "catalog": "west"}),
    ]


def test_a_run_is_told_at_the_table_of_its_catalog_alone(pages):
    from hardpack_airflow.report import write_report

    empty = {"phase_one": [], "phase_two": [], "verify": []}
    write_report("hardpack_west", "run", "west", T0, empty, ["db.same: it was refused."])
    assert "it was refused" in pages.get("/tables/db.same?catalog=west").text
    assert "it was refused" not in pages.get("/tables/db.same").text


def test_a_link_leads_to_the_table_in_its_catalog(lakes, monkeypatch):
    from hardpack_airflow import links

    for catalog, query in (("west", "?catalog=west"), ("east", ""), (None, ""), ("gone", "")):
        result = {"table": "db.same"} | ({"catalog": catalog} if catalog else {})
        monkeypatch.setattr(links, "_results", lambda ti_key, result=result: [result])
        assert links.TableLink().get_link(None, ti_key=None).endswith(f"/tables/db.same{query}")
