"""What somebody may do from a table's page: start a run of one of our DAGs, with their own rights."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import HTTPException, Request
from httpx import ASGITransport, AsyncClient, Response

from hardpack_airflow.by_hand import ACTIONS, DAG_ID
from hardpack_airflow.config import base_url, plainly

log = logging.getLogger(__name__)
CLEAN, DRY_RUN = "clean", "dry_run"
MEANINGS = {
    CLEAN: ("Clean now", "cleans whatever is cleanable, whatever the dirty ratio"),
    DRY_RUN: ("Dry run", "says in the log of its task plan what a run would do, and changes nothing"),
    "verify": ("Verify", "checks the guarantees on the table as it is published"),
    "pause": ("Pause", "keeps its logs from being cleaned until they are resumed"),
    "resume": ("Resume", "undoes one pause, and lets logs be cleaned again that a refused pass had marked"),
}
"""What stands on the button, and what it does."""
WITH_THEM = ("authorization", "cookie")
MOST_DAGS, NEXT_SECONDS = 50, 5
"""DAGs that a page asks about at most, and how long it waits for all of these answers."""


def run_of(action: str, catalog: str, table: str, cleaning_dag: str) -> tuple[str, dict[str, Any]]:
    """Returns the DAG of an action and what its form is filled with.

    Args:
        action: one of `MEANINGS`.
        catalog: where the table is.
        table: the table.
        cleaning_dag: that of the table's policy; empty when no policy is its.

    Raises:
        HTTPException: there is no such action, or nothing cleans the table.
    """
    if action in ACTIONS:
        return DAG_ID, {"action": action, "table": table, "catalog": catalog}
    if action not in MEANINGS:
        raise HTTPException(404)
    if not cleaning_dag:
        raise HTTPException(409, f"No policy names {table}, so no DAG cleans it; give it one in the policy file.")
    return cleaning_dag, {"tables": plainly(table), "force": True, "dry_run": action == DRY_RUN}


async def start(request: Request, dag: str, form: dict[str, Any]) -> str:
    """Starts a run with the rights of who asked.

    Args:
        request: theirs, with their credentials.
        dag: the DAG's id.
        form: the run's parameters.

    Returns:
        The run's id.

    Raises:
        HTTPException: another site sent them, they may not, or Airflow refuses.
    """
    # a cookie goes with what other sites send, unless it is SameSite; this holds for those that are not
    if _is_of_another_site(request):
        raise HTTPException(
            403, "Another site asked for this; go to the table's page and ask there. "
            "Where that is what you did, [api] base_url is not the address that your browser shows."
        )  # fmt: skip
    answer = await _ask(request, "POST", f"dags/{quote(dag, safe='')}/dagRuns", {"logical_date": None, "conf": form})
    if answer.status_code != 200:
        # that Airflow has no such DAG is not that there is no such page
        code = 409 if answer.status_code == 404 else answer.status_code
        raise HTTPException(code, f"Airflow did not start {dag}: {_detail(answer)}")
    return str(answer.json()["dag_run_id"])


async def state(request: Request, dag: str, run: str) -> str:
    """Returns how a run stands, in words; empty when there is none, or who asked may not see it."""
    answer = await _ask(request, "GET", f"dags/{quote(dag, safe='')}/dagRuns/{quote(run, safe='')}")
    if answer.status_code != 200:
        return ""
    about = await _ask(request, "GET", f"dags/{quote(dag, safe='')}")
    paused = about.status_code == 200 and about.json()["is_paused"]
    return f"{answer.json()['state']}{', and waits until somebody unpauses the DAG' if paused else ''}"


async def next_runs(request: Request, dags: Iterable[str]) -> dict[str, int | str | None]:
    """Returns by DAG when its schedule starts a run again, ms.

    `paused` where it starts none before somebody unpauses the DAG; None where there is no schedule, or no such DAG that
    who asked may see.

    Args:
        request: theirs, with their credentials.
        dags: the DAGs' ids; more than a page has policies for are not asked for.
    """
    found: dict[str, int | str | None] = {}
    try:
        async with asyncio.timeout(NEXT_SECONDS):
            for dag in islice(dict.fromkeys(dags), MOST_DAGS):
                found[dag] = _next_run(await _ask(request, "GET", f"dags/{quote(dag, safe='')}"))
    except Exception as error:  # the page has more to say than this
        log.warning("no next run can be told: %s", error)
    return found


def _next_run(answer: Response) -> int | str | None:
    about = answer.json() if answer.status_code == 200 else {}
    after = about.get("next_dagrun_run_after")
    if about.get("is_paused"):
        return "paused"
    return int(datetime.fromisoformat(after).timestamp() * 1000) if after else None


def _is_of_another_site(request: Request) -> bool:
    """Returns whether a page of another site sent a request; what no browser sent is of none."""
    if site := request.headers.get("sec-fetch-site"):
        return site not in ("same-origin", "none")
    # browsers leave that out where a page is not encrypted; ports differ behind a proxy, and share their cookies
    origin = request.headers.get("origin")
    hosts = [request.headers.get("host", ""), *request.headers.get("x-forwarded-host", "").split(",")]
    own_names = {urlsplit(f"//{host.strip()}").hostname for host in hosts} | {urlsplit(base_url()).hostname}
    return origin is not None and urlsplit(origin).hostname not in own_names - {None}


async def _ask(request: Request, method: str, path: str, body: Any = None) -> Response:
    """Asks Airflow's API, which runs in this process and knows what this user may do."""
    headers = {name: request.headers[name] for name in WITH_THEM if name in request.headers}
    async with AsyncClient(transport=ASGITransport(app=_airflow()), base_url="http://airflow") as client:
        return await client.request(method, f"/api/v2/{path}", json=body, headers=headers)


def _airflow() -> Any:
    """Returns the application that this process serves."""
    from airflow.api_fastapi.main import app

    return app


def _detail(answer: Response) -> str:
    try:
        return f"{answer.json()['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
