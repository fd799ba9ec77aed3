"""What a user may do from a table's page: start a run of one of hardpack's DAGs, with the user's own rights."""

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
from hardpack_airflow.config import base_url, glob_of

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
    """Returns the id of the DAG that does an action, and the values for its form.

    Args:
        action: one of `MEANINGS`.
        catalog: where the table is.
        table: the table.
        cleaning_dag: the id of the DAG of the table's policy; empty when no policy names the table.

    Raises:
        HTTPException: there is no such action, or nothing cleans the table.
    """
    if action in ACTIONS:
        return DAG_ID, {"action": action, "table": table, "catalog": catalog}
    if action not in MEANINGS:
        raise HTTPException(404)
    if not cleaning_dag:
        raise HTTPException(409, f"No policy names {table}, so no DAG cleans it; give it one in the policy file.")
    return cleaning_dag, {"tables": glob_of(table), "force": True, "dry_run": action == DRY_RUN}


async def start(request: Request, dag: str, form: dict[str, Any]) -> str:
    """Starts a run with the rights of the user who asked.

    Args:
        request: the user's, with their credentials.
        dag: the DAG's id.
        form: the run's parameters.

    Returns:
        The run's id.

    Raises:
        HTTPException: the request came from another site's page, the user may not start it, or Airflow refuses.
    """
    # unless a cookie is SameSite, a browser sends it with requests of other sites too, so these are refused here
    if _is_of_another_site(request):
        raise HTTPException(
            403, "Another site asked for this; go to the table's page and ask there. "
            "Where that is what you did, [api] base_url is not the address that your browser shows."
        )  # fmt: skip
    answer = await _ask(request, "POST", f"dags/{quote(dag, safe='')}/dagRuns", {"logical_date": None, "conf": form})
    if answer.status_code != 200:
        # 404 would say that this page is not there, where it is the DAG that Airflow does not have
        code = 409 if answer.status_code == 404 else answer.status_code
        raise HTTPException(code, f"Airflow did not start {dag}: {_detail(answer)}")
    return str(answer.json()["dag_run_id"])


async def state(request: Request, dag: str, run: str) -> str:
    """Returns a run's state in words; empty when there is no such run, or the user may not see it."""
    answer = await _ask(request, "GET", f"dags/{quote(dag, safe='')}/dagRuns/{quote(run, safe='')}")
    if answer.status_code != 200:
        return ""
    about = await _ask(request, "GET", f"dags/{quote(dag, safe='')}")
    paused = about.status_code == 200 and about.json()["is_paused"]
    return f"{answer.json()['state']}{', and waits until somebody unpauses the DAG' if paused else ''}"


async def next_runs(request: Request, dags: Iterable[str]) -> dict[str, int | str | None]:
    """Returns for each DAG when its schedule starts the next run, ms.

    The value is `paused` for a paused DAG. It is None when the DAG has no schedule, or the user sees no such DAG.

    Args:
        request: the user's, with their credentials.
        dags: the DAGs' ids, of which the first `MOST_DAGS` are asked about.
    """
    found: dict[str, int | str | None] = {}
    try:
        async with asyncio.timeout(NEXT_SECONDS):
            for dag in islice(dict.fromkeys(dags), MOST_DAGS):
                found[dag] = _next_run(await _ask(request, "GET", f"dags/{quote(dag, safe='')}"))
    except Exception as error:  # the page is of use without next runs
        log.warning("no next run can be told: %s", error)
    return found


def _next_run(answer: Response) -> int | str | None:
    about = answer.json() if answer.status_code == 200 else {}
    after = about.get("next_dagrun_run_after")
    if about.get("is_paused"):
        return "paused"
    return int(datetime.fromisoformat(after).timestamp() * 1000) if after else None


def _is_of_another_site(request: Request) -> bool:
    """Returns whether a page of another site sent a request; False when no browser sent it."""
    if site := request.headers.get("sec-fetch-site"):
        return site not in ("same-origin", "none")
    # browsers leave that header out where a page is not encrypted, so Origin decides; ports do not count, as they
    # differ behind a proxy and share their cookies
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
