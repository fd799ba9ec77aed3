"""Pictures for the README from the running system: `make up` first, then `make screenshots`. Needs Chromium."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import httpx
import typer
from hardpack_airflow.config import framed_path
from hardpack_airflow.demo.__main__ import CONFIG, DAG, HOME, LIVE
from hardpack_airflow.demo.local_airflow import USER, LocalAirflow
from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update"]


def main(port: Annotated[int, typer.Option(help="port of Airflow on loopback")] = 8080) -> None:
    """Logs in, and takes pictures of the last full run, its page of Data Docs and our own pages."""
    airflow = LocalAirflow(HOME, port, {}, CONFIG)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not airflow.running() or not chromium:
        sys.exit("start the demo with `make up` and install Chromium (Debian: chromium) first.")
    run, page_address = last_full_run(airflow)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 820})
        page.goto(f"{airflow.url}/auth/login")
        page.fill("input[name=username]", USER)
        page.fill("input[name=password]", airflow.passwords[USER])
        page.click("button[type=submit]")
        page.wait_for_url("**/")
        take(page, f"{airflow.url}/dags/{DAG}/runs/{run}", "grid.png")
        take(page, f"{airflow.url}{page_address}", "data_docs.png")
        take(page, f"{airflow.url}/plugin/hardpack", "page_tables.png")
        take(page, f"{airflow.url}{framed_path(f'/tables/{LIVE}')}", "page_table.png")
        take(page, f"{airflow.url}{report_address(airflow, run)}", "page_report.png")
        browser.close()


def last_full_run(airflow: LocalAirflow) -> tuple[str, str]:
    """Returns the newest run that cleaned something, and the address of its page of Data Docs."""
    runs = airflow.call("GET", f"dags/{DAG}/dagRuns", params={"order_by": "-run_after", "state": "success"})["dag_runs"]
    for run in runs:
        path = f"dags/{DAG}/dagRuns/{run['dag_run_id']}/taskInstances/unit.phase_one/links"
        try:
            links = airflow.call("GET", path, params={"map_index": 0})["extra_links"]
        except httpx.HTTPStatusError:  # a run that was skipped has no such task
            continue
        if links.get("Data Docs"):
            return run["dag_run_id"], links["Data Docs"]
    sys.exit("no run has cleaned anything yet; wait for the next.")


def report_address(airflow: LocalAirflow, run: str) -> str:
    """Returns the address of a run's report."""
    path = f"dags/{DAG}/dagRuns/{run}/taskInstances/report/links"
    return str(airflow.call("GET", path)["extra_links"]["Report"])


def take(page: Page, address: str, name: str) -> None:
    """Opens a page, waits until it is drawn, and saves its picture."""
    page.goto(address)
    page.wait_for_timeout(4000)
    page.screenshot(path=PICTURES / name)


if __name__ == "__main__":
    typer.run(main)
