"""Our pages: what they show, what they refuse, and that nothing hostile gets through. Logins: tests/end_to_end."""

import re
import time
from html import unescape

import pytest
from hardpack.compaction.report import LogReport, PassReport
from hardpack.rules.settings import LONG_MAX
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY

from tests.cli.test_moments import FORGED, far_horizon, forge
from tests.topics import append, name_of, new_topic, row

pytestmark = pytest.mark.dags
SORTS = ("table", "dirty", "due", "late", "tombstones", "size", "last_pass", "reclaimed", "amplification")
HOSTILE = '<img src=x onerror=alert("x")>'


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
    monkeypatch.setattr(
        TableCache, "_summary", lambda self, hp, one: (read.append(name_of(one)), real(self, hp, one))[1]
    )
    append(catalog.load_table(busy), {0: [row(2, "a")]})
    client.get("/")
    assert read == []
    web.table_cache().tried = 0.0
    client.get("/")
    assert busy in read
    assert quiet not in read
    entry = next(t for t in client.get("/api/tables").json() if t["table"] == busy)
    assert entry["rows"] == 5


def test_a_strangers_table_that_cannot_be_read_is_no_row(client, topics, catalog, monkeypatch):
    """Views and tables that Airflow may not read are no failure of hardpack's, and there may be thousands."""
    from hardpack.errors import Unreadable
    from hardpack.operations import known_tables
    from hardpack.table import catalog as door
    from hardpack_airflow import web

    strange, real, opened = "t.strange", door.open_table, []
    catalog.create_table(strange, catalog.load_table(topics[0]).schema())

    def refusing(of, name):
        opened.append(name)
        if name in (strange, topics[1]):
            raise Unreadable(f"{name} may not be read")
        return real(of, name)

    client.get("/")
    monkeypatch.setattr(door, "open_table", refusing)
    monkeypatch.setattr(known_tables, "adopted_tables", lambda *_: {topics[0]})
    cache = web.table_cache()
    append(catalog.load_table(topics[1]), {0: [row(2, "a")]})
    cache.seen.pop(strange, None)
    for _ in range(2):
        cache.tried = 0.0
        client.get("/")
    told = {t["table"]: t["error"] for t in client.get("/api/tables").json()}
    assert strange not in told
    assert "may not be read" in told[topics[1]], "it was a topic when it was read last"
    assert opened.count(strange) == 1
    monkeypatch.setattr(known_tables, "adopted_tables", lambda *_: set())
    cache.seen.pop(strange)
    cache.tried = 0.0
    client.get("/")
    assert strange in {t["table"] for t in client.get("/api/tables").json()}, "nobody noted which tables are adopted"
    monkeypatch.setattr(known_tables, "adopted_tables", lambda *_: {topics[0]})
    cache.seen.clear()
    monkeypatch.setattr(door, "open_table", lambda _, name: refusing(_, strange))
    cache.tried = 0.0
    client.get("/")
    assert {t["error"] for t in client.get("/api/tables").json()} != {""}, "the fault is not the tables'"
    catalog.drop_table(strange)


def test_where_a_catalog_tells_of_no_change_tables_are_opened_side_by_side_and_read_once(
    client, topics, catalog, monkeypatch
):
    """As those of REST, which tell where a table's metadata lies only when it is loaded."""
    from hardpack.operations import known_tables
    from hardpack.table import catalog as door
    from hardpack_airflow import web
    from hardpack_airflow.table_cache import TableCache

    opened, most, real, read, real_read = set(), 0, door.open_table, [], TableCache._summary

    def slow(of, name):
        nonlocal most
        opened.add(name)
        most = max(most, len(opened))
        time.sleep(0.05)
        opened.discard(name)
        return real(of, name)

    client.get("/")
    names = sorted({*web.table_cache().seen, *topics})
    monkeypatch.setattr(known_tables, "known_tables", lambda *_: names)
    monkeypatch.setattr(door, "metadata_locations", lambda _: {})
    monkeypatch.setattr(door, "open_table", slow)
    monkeypatch.setattr(
        TableCache, "_summary", lambda self, hp, one: (read.append(name_of(one)), real_read(self, hp, one))[1]
    )
    append(catalog.load_table(topics[1]), {0: [row(2, "a")]})
    web.table_cache().tried = 0.0
    client.get("/")
    assert most > 1
    assert topics[1] in read
    assert topics[0] not in read


def test_what_was_never_read_to_the_end_is_no_empty_list(client, topics, monkeypatch):
    from hardpack_airflow import web
    from hardpack_airflow.table_cache import TableCache

    real = TableCache._look_at_all
    monkeypatch.setattr(TableCache, "_look_at_all", lambda self: 1 / 0)
    answer = client.get("/api/tables")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["detail"].startswith("catalog hardpack: ")
    monkeypatch.setattr(TableCache, "_look_at_all", real)
    web.table_cache().tried = 0.0
    assert client.get("/api/tables").status_code == 200
    monkeypatch.setattr(TableCache, "_look_at_all", lambda self: 1 / 0)
    web.table_cache().tried = 0.0
    assert client.get("/api/tables").status_code == 200, "what was seen before is told"


def test_a_table_page_says_what_a_run_would_do_and_where_settings_come_from(client, topics):
    _, busy = topics
    page = client.get(f"/tables/{busy}").text
    assert "dirty ratio 1.000 is above 0" in page
    assert re.search(r"<code>min.cleanable.dirty.ratio</code></td><td>0.0</td><td>table</td>", page)
    assert page.count("<svg") == 2
    assert "<script" not in page
    found = client.get(f"/api/tables/{busy}").json()
    assert [log["partition"] for log in found["logs"]] == [0, 1]
    assert found["origins"]["min.cleanable.dirty.ratio"] == "table"


def test_every_row_that_left_has_its_column(client, catalog):
    table = new_topic(catalog)
    append(table, {0: [row(offset, "a") for offset in range(9)]})
    log = LogReport(
        partition=0, checkpoint_before=None, checkpoint_after=9, log_end=9, rows_before=9, rows_after=2, bytes_before=9,
        bytes_after=2, aborted=3, retention=4, bytes_read=2000, bytes_written=1000,
    )  # fmt: skip
    report = PassReport(table=name_of(table), phase="retention", plan="p", now=5, base=1, logs=(log,))
    table.delete("offset < 7", snapshot_properties={PLAN_SUMMARY: "one:p", PASS_SUMMARY: report.summary_json()})
    page = client.get(f"/tables/{name_of(table)}").text
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page[page.index("<h2>Passes</h2>") :])
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page[page.index("<h2>Passes</h2>") :])
    found = dict(zip(heads, cells, strict=False))
    assert (found["rows before"], found["after"], found["aborted"], found["retention"]) == ("9", "2", "3", "4")
    assert (found["read"], found["written"]) == ("2.0 kB", "1.0 kB")
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
    web.table_cache().tried = 0.0
    answer = client.get("/", params={"find": topics[0]})
    assert answer.status_code == 200
    assert f'/tables/{topics[0]}"' in answer.text
    assert "policies.0" in answer.text


def test_a_table_that_the_policy_file_does_not_name_is_said_to_be_cleaned_by_nobody(
    client, topics, tmp_path, monkeypatch
):
    address = f"/tables/{topics[0]}"
    assert "Policy: the one of Airflow's section [hardpack]." in unescape(client.get(address).text)
    path = tmp_path / "policies.yaml"
    path.write_text("policies: [{name: others, tables: [others.*]}]")
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))
    assert "Policy: none, as the policy file names this table nowhere" in client.get(address).text


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
        assert "&lt;img src=x" in answer.text or "There is no such page" in answer.text
    else:
        assert answer.headers["content-type"] == "application/json"
    policy = answer.headers["content-security-policy"]
    assert all(rule in policy for rule in ("default-src 'none'", "form-action 'self'", "base-uri 'none'"))
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("route", "kind"), [("docs", ""), ("api/reports", ".json")])
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "..%252fsecret.txt", "/etc/passwd", "%2fetc%2fpasswd",
        "x/../../secret.txt", "link.txt", "a%00b", "n" * 5000, ".",
    ],
)  # fmt: skip
def test_path_tricks_find_nothing(client, tmp_path, route, kind, path):
    secret = tmp_path / f"secret.txt{kind}"
    secret.write_text("secret")
    for name in ("data_docs", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"link.txt{kind}").symlink_to(secret)
        (tmp_path / name / f"good.html{kind}").write_text("good")
    assert client.get(f"/{route}/good.html").text == "good"
    answer = client.get(f"/{route}/{path}")
    assert "secret" not in answer.text
    assert answer.status_code == 404


@pytest.mark.parametrize("sort", SORTS)
def test_columns_sort_both_ways(client, topics, monkeypatch, sort):
    from hardpack_airflow import web

    monkeypatch.setattr(web, "PER_PAGE", 1000)
    page = client.get("/", params={"find": "t.topic", "sort": sort}).text
    assert f'href="?sort=-{sort}&amp;find=t.topic"' in page
    assert page.count("aria-sort") == 1
    summaries = {one.table: one for one in web.summaries_of([web.table_cache()])}
    for by, reverse in ((sort, False), (f"-{sort}", True)):
        page = client.get("/", params={"find": "t.topic", "sort": by}).text
        found = [web.SORTS[sort](summaries[name]) for name in re.findall(r"/tables/(t\.topic\d+)", page)]
        assert found == sorted(found, reverse=reverse)
        assert len(found) > 1


def test_a_long_table_is_shown_in_parts(client, topics, monkeypatch):
    from hardpack_airflow import web

    monkeypatch.setattr(web, "LOGS_PER_PAGE", 1)
    first, second, beyond = (client.get(f"/tables/{topics[1]}", params={"at": at}).text for at in (1, 2, 9))
    assert "page 1 of 2" in first
    assert "page 2 of 2" in second
    assert "page 2 of 2" in beyond


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (None, "-"),
        (2**63 - 1, "never"),
        (1000, ">now<"),
        (0, ">1 s ago<"),
        (7_201_000, ">in 2 h<"),
        (-(2**63), "long ago"),
    ],
)
def test_times_are_said_as_people_say_them(ms, said):
    from hardpack_airflow.rendering import when

    assert said in f">{when(ms, 1000)}<" or said == str(when(ms, 1000))


def test_addresses_lie_behind_the_path_of_airflows_own(client, topics, monkeypatch):
    from hardpack_airflow.config import framed_path

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://company.example/airflow/")
    page = client.get("/", params={"find": topics[0]}).text
    assert 'href="/airflow/hardpack/style.css"' in page
    assert f'href="/airflow/hardpack/tables/{topics[0]}"' in page
    assert '"/hardpack' not in page
    assert framed_path("/reports") == "/airflow/plugin/hardpack/airflow/hardpack/reports"


def test_numbers_of_a_look_that_failed_are_told_as_those_of_the_last_that_did_not(client, topics, monkeypatch):
    from hardpack_airflow import web
    from hardpack_airflow.table_cache import TableCache

    assert "Looked at" in client.get("/").text
    monkeypatch.setattr(TableCache, "_look_at_all", lambda self: 1 / 0)
    web.table_cache().tried, web.table_cache().looked = 0.0, time.time() - 7200
    page = client.get("/").text
    assert re.search(r"The numbers are of the last look that came to its end,\s+<time[^>]*>2 h ago", page)
    assert "Looked at" not in page
