"""Our pages on the real server: who may see them, and a visit with a real browser from login to report."""

import re
import shutil

import httpx
import pytest

from tests.topics import append, name_of, new_topic, row, rows_of

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
NO_ROUTES = ("/openapi.json", "/docs", "/reports/..%2fairflow%2fpasswords.json")
FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def topic(site):
    table = new_topic(site.catalog, min_cleanable_dirty_ratio=0)
    for offset in range(3):
        append(table, {0: [row(offset, "a")], 1: [row(offset, f"k{offset}")]})
    return table


@pytest.fixture(scope="module")
def page(site):
    """A browser's page, logged in; None without a browser."""
    if not (chromium := shutil.which("chromium")):
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 820})
        page.goto(f"{site.airflow.url}/auth/login")
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", site.airflow.passwords["admin"])
        page.click("button[type=submit]")
        page.wait_for_url("**/")
        yield page
        browser.close()


@pytest.fixture(scope="module")
def cleaned(site, topic, page):
    """A run that cleaned the topic, started with the form where there is a browser."""
    site.airflow.call("PATCH", "dags/hardpack", json={"is_paused": False})
    if page:
        trigger_with_the_form(page, site, name_of(topic))
    else:
        site.airflow.trigger("hardpack", {"tables": name_of(topic)})
    (run,) = runs(site)
    states = dict(site.airflow.watch("hardpack", run))
    assert states[""] == "success", states
    return run


def test_every_route_needs_a_login(site, topic, cleaned, capsys):
    (report,) = (site.home / "reports").iterdir()
    page = next((site.home / "data_docs").rglob("validations/**/*.html")).relative_to(site.home / "data_docs")
    name = name_of(topic)
    wanted = {
        "/": 200, "/api/tables": 200, f"/tables/{name}": 200, f"/api/tables/{name}": 200, "/tables/no.such": 404,
        "/reports": 200, f"/reports/{report.stem}": 200, f"/api/reports/{report.stem}": 200, f"/docs/{page}": 200,
        "/style.css": 200, "/reports/no.such": 404,
        "/docs/%2e%2e/airflow/passwords.json": 404, "/docs/..%2fairflow%2fpasswords.json": 404,
        "/reports/..%2fairflow%2fpasswords.json": 404, "/docs//etc/passwd": 404, "/openapi.json": 404, "/docs": 404,
    }  # fmt: skip
    tokens = {"viewer": site.airflow.token("vera"), "admin": site.airflow.token("admin")}
    lines = []
    for route, status in wanted.items():
        address = f"{site.airflow.url}/hardpack{route}"
        nobody = httpx.get(address, timeout=30).status_code
        seen = {
            role: httpx.get(address, headers={"Authorization": f"Bearer {token}"}, timeout=30).status_code
            for role, token in tokens.items()
        }
        lines.append(f"{route[:60]:60} {nobody} {seen['viewer']} {seen['admin']}")
        # what is no route at all is answered with 404 to anybody, as it tells nothing
        assert nobody == 401 or (nobody == status == 404 and route in NO_ROUTES), route
        assert set(seen.values()) == {status}, route
    for token, status in ((None, 401), (tokens["viewer"], 403)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx.post(f"{site.airflow.url}/hardpack/tables/{name}/pause", headers=headers, timeout=30)
        assert answer.status_code == status, answer.text
    with capsys.disabled():
        print("\nroute, then status without a login, as viewer, as admin:", *lines, sep="\n")


def test_what_a_run_tells_other_dags(site, topic, cleaned):
    events = site.airflow.call("GET", "assets/events")["asset_events"]
    (event,) = [e for e in events if e["source_run_id"] == cleaned]
    done = event["extra"]["phase_one"]["logs"]
    assert {log: [d["rows_before"], d["rows_after"]] for log, d in done.items()} == {"0": [3, 2], "1": [3, 3]}
    assert event["uri"].rstrip("/") == f"iceberg://hardpack/{name_of(topic).replace('.', '/')}"
    (report,) = site.airflow.xcom("hardpack", cleaned, "unit.phase_one", 0)
    assert report["spark_application"].startswith("local-")
    log = site.airflow.log("hardpack", cleaned, "unit.phase_one", map_index=0)
    assert re.search(r"t\.topic\d+: reading keys: 4 of 4 files, .*/s, 0 s left", log)


def test_a_visit_with_a_browser(site, topic, cleaned, page):
    if not page:
        pytest.skip("Debian's package chromium is not installed")
    name, asked = name_of(topic), []
    page.goto(f"{site.airflow.url}/dags/hardpack/runs/{cleaned}/tasks/unit.phase_one/mapped")
    page.get_by_text(f"{name} 0,1").first.wait_for()
    # what the browser is told not to fetch begins as a request but never ends
    page.on("requestfinished", lambda request: asked.append(request.url))
    page.goto(f"{site.airflow.url}/plugin/hardpack")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name=name).click()
    frame.get_by_role("heading", name=name).wait_for()
    assert frame.locator("svg").count() == 4
    assert frame.get_by_text("nothing dirty below the bound (active segment)").count() == 2
    frame.get_by_role("link", name="Reports").click()
    frame.get_by_role("link", name=cleaned).click()
    frame.get_by_role("heading", name="1 table cleaned.").wait_for()
    assert frame.get_by_role("link", name=cleaned).count() == 0, "it would open Airflow inside Airflow's frame"
    frame.get_by_role("link", name="Data Docs").first.click()
    frame.get_by_text("the latest record of every key is kept").first.wait_for()
    assert {re.sub(r"^(https?://[^/]+).*", r"\1", url) for url in asked if url.startswith("http")} == {site.airflow.url}
    assert [r.offset for r in rows_of(topic)] == [1, 2]


def test_what_an_alert_asks_for_is_done_from_the_page(site, topic, cleaned, page):
    if not page:
        pytest.skip("Debian's package chromium is not installed")
    name = name_of(topic)
    append(topic, {0: [row(3, "a")]})
    page.goto(f"{site.airflow.url}/plugin/hardpack/hardpack/tables/{name}")
    frame = page.frame_locator("iframe")
    press(page, frame, "Pause")
    assert frame.get_by_text("paused").count() >= 2
    press(page, frame, "Resume")
    assert frame.get_by_text("paused").count() == 0
    press(page, frame, "Verify")
    press(page, frame, "Dry run")
    assert [r.offset for r in rows_of(topic)] == [1, 2, 3]
    append(topic, {0: [row(4, "b")]})
    press(page, frame, "Clean now")
    assert [r.offset for r in rows_of(topic)] == [3, 4]


def press(page, frame, button):
    """As a person does: the button, then a look now and then at how its run stands."""
    from playwright.sync_api import expect

    page.wait_for_timeout(1000)  # Airflow's own page follows what its frame shows
    told = frame.locator(".told b").first
    before = told.text_content() if told.count() else ""
    frame.get_by_role("button", name=button).click()
    expect(told).not_to_have_text(before, timeout=30_000)
    for _ in range(100):
        frame.get_by_role("link", name="Look again").click()
        if frame.get_by_text(": success").count():
            return
        assert not frame.get_by_text(": failed").count()
        page.wait_for_timeout(1000)
    raise AssertionError(f"{button} did not end")


def runs(site):
    return [run["dag_run_id"] for run in site.airflow.call("GET", "dags/hardpack/dagRuns")["dag_runs"]]


def trigger_with_the_form(page, site, tables):
    """As a person does: the button, the form, its fields."""
    before = len(runs(site))
    page.goto(f"{site.airflow.url}/dags/hardpack")
    page.get_by_role("button", name="Trigger").first.click()
    page.locator("#element_tables").fill(tables)
    page.get_by_role("dialog").get_by_role("button", name="Trigger", exact=True).click()
    for _ in range(60):
        if len(runs(site)) > before:
            return
        page.wait_for_timeout(500)
    raise AssertionError("no run was started")
