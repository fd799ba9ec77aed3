"""Our pages: what they show, what they refuse, and that nothing hostile gets through. Logins: tests/end_to_end."""

import re

import pytest
from hardpack.compaction.report import LogReport, PassReport
from hardpack.rules.settings import LONG_MAX
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY

from tests.cli.test_moments import FORGED, far_horizon, forge
from tests.topics import append, name_of, new_topic, row

pytestmark = pytest.mark.dags
SORTS = ("table", "dirty", "due", "late", "tombstones", "size", "reclaimed", "amplification")
HOSTILE = '<img src=x onerror=alert("x")>'


@pytest.fixture
def client(catalog, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from fastapi.testclient import TestClient
    from hardpack.table import catalog as module
    from hardpack_airflow import web

    monkeypatch.setattr(module, "open_catalog", lambda name: catalog)
    web._table_cache.cache_clear()
    for dependency in web.app.router.dependencies:
        web.app.dependency_overrides[dependency.dependency] = lambda: None
    yield TestClient(web.app)
    web.app.dependency_overrides.clear()
    web._table_cache.cache_clear()


@pytest.fixture
def topics(catalog):
    quiet, busy = new_topic(catalog), new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(quiet, {0: [row(0, "a")]})
    append(busy, {0: [row(0, "a")], 1: [row(0, "b")]})
    append(busy, {0: [row(1, "a")], 1: [row(1, "b")]})
    return name_of(quiet), name_of(busy)


def test_the_overview_has_all_topics_the_due_ones_first(client, topics):
    quiet, busy = topics
    page = client.get("/", params={"find": "t.topic"}).text
    assert page.index(f">{busy}<") < page.index(f">{quiet}<")
    assert f">{quiet}<" not in client.get("/", params={"find": busy}).text
    entry = next(t for t in client.get("/api/tables").json() if t["table"] == busy)
    assert (entry["logs"], entry["due"], entry["rows"], entry["error"]) == (2, 2, 4, "")


def test_a_change_is_seen_after_a_while_and_the_rest_is_not_read_again(client, topics, catalog, monkeypatch):
    from hardpack_airflow import web
    from hardpack_airflow.table_cache import TableCache

    quiet, busy = topics
    client.get("/")
    read, real = [], TableCache._summary
    monkeypatch.setattr(TableCache, "_summary", lambda self, hp, name: (read.append(name), real(self, hp, name))[1])
    append(catalog.load_table(busy), {0: [row(2, "a")]})
    client.get("/")
    assert read == []
    web.table_cache().looked = 0.0
    client.get("/")
    assert busy in read
    assert quiet not in read
    entry = next(t for t in client.get("/api/tables").json() if t["table"] == busy)
    assert entry["rows"] == 5


def test_a_table_page_says_what_a_run_would_do_and_where_settings_come_from(client, topics):
    _, busy = topics
    page = client.get(f"/tables/{busy}").text
    assert "dirty ratio 1.000 is above 0" in page
    assert re.search(r"<code>min.cleanable.dirty.ratio</code></td><td>0.0</td><td>table</td>", page)
    assert page.count("<svg") == 4
    assert "<script" not in page
    found = client.get(f"/api/tables/{busy}").json()
    assert [log["partition"] for log in found["logs"]] == [0, 1]
    assert found["origins"]["min.cleanable.dirty.ratio"] == "table"


def test_every_row_that_left_has_its_column(client, catalog):
    table = new_topic(catalog)
    append(table, {0: [row(offset, "a") for offset in range(9)]})
    log = LogReport(
        partition=0, checkpoint_before=None, checkpoint_after=9, log_end=9, rows_before=9, rows_after=2, bytes_before=9,
        bytes_after=2, aborted=3, retention=4,
    )  # fmt: skip
    report = PassReport(table=name_of(table), phase="retention", plan="p", now=5, base=1, logs=(log,))
    table.delete("offset < 7", snapshot_properties={PLAN_SUMMARY: "one:p", PASS_SUMMARY: report.summary_json()})
    page = client.get(f"/tables/{name_of(table)}").text
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page[page.index("<h2>Passes</h2>") :])
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page[page.index("<h2>Passes</h2>") :])
    found = dict(zip(heads, cells, strict=False))
    assert (found["rows before"], found["after"], found["aborted"], found["retention"]) == ("9", "2", "3", "4")
    assert "superseded" not in found


def test_a_broken_table_is_a_line_beside_the_others(client, topics, catalog):
    broken = new_topic(catalog, min_cleanable_dirty_ratio=7)
    page = client.get("/", params={"find": name_of(broken)}).text
    assert "expected: less than or equal to 1" in page
    with broken.transaction() as change:  # other tests look at all tables of this catalog
        change.set_properties({"hardpack.min.cleanable.dirty.ratio": "0.5"})


def test_a_forged_table_spoils_no_page(client, topics, catalog):
    forged = [far_horizon(catalog, LONG_MAX)]
    for summary in FORGED:
        for at in (None, LONG_MAX, -LONG_MAX):
            forged.append(new_topic(catalog))
            append(forged[-1], {0: [row(0, "a"), row(1, "a", None)]})
            forge(forged[-1], summary, at)
    answer = client.get("/", params={"find": topics[0]})
    assert (answer.status_code, topics[0] in answer.text) == (200, True)
    for sort in SORTS:
        assert client.get("/", params={"find": "t.topic", "sort": sort}).status_code == 200
    assert client.get("/api/tables").status_code == 200
    for table in forged:
        for address in (f"/tables/{name_of(table)}", f"/api/tables/{name_of(table)}"):
            assert client.get(address).status_code == 200
    for table in forged:  # other tests look at all tables of this catalog
        catalog.drop_table(name_of(table))


def test_a_wrong_policy_file_is_said_beside_what_is_known(client, topics, tmp_path, monkeypatch):
    from hardpack_airflow import web

    client.get("/")
    path = tmp_path / "policies.yaml"
    path.write_text("policies: [{nme: x}]")
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))
    web.table_cache().looked = 0.0
    answer = client.get("/", params={"find": "t.topic"})
    assert answer.status_code == 200
    assert topics[0] in answer.text
    assert "policies.0" in answer.text


def test_whatever_goes_wrong_with_a_table_is_a_sentence(client, topics, monkeypatch):
    from hardpack_airflow.table_cache import TableCache

    def table(self, name):
        raise OSError("connection reset")

    monkeypatch.setattr(TableCache, "table", table)
    for address in (f"/tables/{topics[0]}", f"/api/tables/{topics[0]}"):
        answer = client.get(address)
        assert (answer.status_code, "connection reset" in answer.text) == (500, True)


def test_an_unknown_table_is_a_sentence(client):
    answer = client.get("/tables/t.nowhere")
    assert answer.status_code == 404
    assert "no such table in catalog" in answer.text
    assert client.get("/api/tables/t.nowhere").status_code == 404


@pytest.mark.parametrize("address", ["/", "/tables/{}", "/api/tables/{}", "/reports/{}", "/docs/{}"])
def test_nothing_hostile_comes_back_as_markup(client, topics, address):
    answer = client.get(address.format(HOSTILE), params={"find": HOSTILE, "sort": HOSTILE})
    if answer.headers["content-type"].startswith("text/html"):
        assert HOSTILE not in answer.text
        assert "&lt;img src=x" in answer.text
    else:
        assert answer.headers["content-type"] == "application/json"
    policy = answer.headers["content-security-policy"]
    assert all(rule in policy for rule in ("default-src 'none'", "form-action 'self'", "base-uri 'none'"))
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("folder", ["docs", "reports"])
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "..%252fsecret.txt", "/etc/passwd", "%2fetc%2fpasswd",
        "x/../../secret.txt", "link.txt", "a%00b", "n" * 5000, ".",
    ],
)  # fmt: skip
def test_path_tricks_find_nothing(client, tmp_path, folder, path):
    (tmp_path / "secret.txt").write_text("secret")
    for name in ("data_docs", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link.txt").symlink_to(tmp_path / "secret.txt")
        (tmp_path / name / "good.html").write_text("good")
    assert client.get(f"/{folder}/good.html").text == "good"
    answer = client.get(f"/{folder}/{path}")
    assert answer.status_code == 404 or "secret" not in answer.text
    assert answer.status_code in (404, 200)
    if answer.status_code == 200:  # the index of reports, where the path was nothing
        assert path == "."


def test_reports_are_listed_the_newest_first(client, tmp_path):
    import os

    (tmp_path / "reports").mkdir()
    for at, name in enumerate(("first", "second")):
        file = tmp_path / "reports" / f"{name}.json"
        file.write_text("{}")
        os.utime(file, (1000 + at, 1000 + at))
    page = tmp_path / "data_docs" / "validations" / "s" / "db.a_b_partition_0-1_published_7" / "time"
    page.mkdir(parents=True)
    (page / "x.html").write_text("fine")
    listed = client.get("/reports").text
    assert listed.index(">second<") < listed.index(">first<")
    assert "db.a_b partition 0-1 published 7" in listed
    address = re.search(r'href="/hardpack(/docs/[^"]*)"', listed).group(1)
    assert client.get(address).text == "fine"


def test_links_of_a_task_quote_what_they_name(monkeypatch):
    from airflow.sdk.execution_time.xcom import XCom
    from hardpack_airflow.links import TableLink

    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{"table": "db.a/b c"}])
    assert TableLink().get_link(None, ti_key=None) == "/hardpack/tables/db.a%2Fb%20c"
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{"table": "db.a"}, {"table": "db.b"}])
    assert TableLink().get_link(None, ti_key=None) == "/hardpack/"
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: None)
    assert TableLink().get_link(None, ti_key=None) == ""


def test_the_link_to_spark_leads_where_the_setting_says(monkeypatch):
    from airflow.sdk.execution_time.xcom import XCom
    from hardpack_airflow.links import SparkLink

    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{"error": ""}, {"spark_application": "local-17"}])
    assert SparkLink().get_link(None, ti_key=None) == ""
    monkeypatch.setenv("AIRFLOW__HARDPACK__SPARK_UI", "https://history/history/{application}/jobs")
    assert SparkLink().get_link(None, ti_key=None) == "https://history/history/local-17/jobs"
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{}])
    assert SparkLink().get_link(None, ti_key=None) == ""


def test_the_link_to_data_docs_leads_to_the_page_or_to_the_list_of_several(monkeypatch):
    from airflow.sdk.execution_time.xcom import XCom
    from hardpack_airflow.links import DataDocsLink

    for pages, address in (
        ([""], ""),
        (["/home/data_docs/a b.html"], "/hardpack/docs/a%20b.html"),
        ([["/home/data_docs/a.html"]], "/hardpack/docs/a.html"),
        (["", "/home/data_docs/a.html"], "/hardpack/docs/a.html"),
        (["/home/data_docs/a.html", ["/home/data_docs/b.html"]], "/hardpack/reports"),
    ):
        monkeypatch.setattr(XCom, "get_value", lambda ti_key, key, pages=pages: [{"data_docs": p} for p in pages])
        assert DataDocsLink().get_link(None, ti_key=None) == address
