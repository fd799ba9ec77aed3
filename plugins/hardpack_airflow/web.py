"""hardpack's pages inside Airflow's server, behind Airflow's own login.

Every file goes through an authorised route; a static mount would be public even inside a protected application. Pages
need nothing beyond the server: no script, no font, no style from elsewhere, and browsers are told to fetch none.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse

from hardpack_airflow import actions, report_pages
from hardpack_airflow.by_hand import ACTIONS as BY_HAND
from hardpack_airflow.config import page_path, shown_catalogs
from hardpack_airflow.patience import POLICIES, catalog_of
from hardpack_airflow.rendering import PAGES, PER_PAGE, is_framed, page, part, said_of, status_of
from hardpack_airflow.table_cache import TableCache, summaries_of

if TYPE_CHECKING:
    from hardpack.operations.status import LogStatus
    from hardpack.operations.summary import TableSummary

T = TypeVar("T")
log = logging.getLogger(__name__)
LOGS_PER_PAGE = 200
_MAKING = threading.Lock()
SORTS: dict[str, Callable[[TableSummary], Any]] = {
    "table": lambda s: (s.table, s.catalog),
    "catalog": lambda s: (s.catalog, s.table),
    "size": lambda s: -s.bytes,
    "dirty": lambda s: -s.ratio,
    "due": lambda s: -s.due,
    "late": lambda s: -s.overdue_ms,
    "tombstones": lambda s: -(s.tombstones_waiting or 0),
    "last_pass": lambda s: -(s.last_pass or 0),
    "reclaimed": lambda s: -s.reclaimed,
    "amplification": lambda s: -(s.write_amplification or 0),
}
LOG_SORTS: dict[str, Callable[[LogStatus], Any]] = {
    "rows": lambda s: -s.rows,
    "size": lambda s: -s.bytes,
    "files": lambda s: -s.files,
    "dirty": lambda s: -s.ratio,
    "late": lambda s: -s.overdue_ms,
    "tombstones": lambda s: -(s.tombstones_waiting or 0),
    "due": lambda s: not s.due,
}
SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    # without a referrer, a browser would send no Origin that shows a form to be hardpack's
    "Referrer-Policy": "same-origin",
}
"""The headers of every answer; by them a browser fetches for a page only what this server has."""

app = FastAPI(
    title="hardpack", dependencies=[Depends(requires_access_view(AccessView.WEBSITE))], redirect_slashes=False,
    docs_url=None, redoc_url=None, openapi_url=None,
)  # fmt: skip


app.include_router(report_pages.router)


@app.middleware("http")
async def safe(request: Request, call_next: Any) -> Response:
    """Adds to every answer the headers that limit what a browser may do with it."""
    answer: Response = await call_next(request)
    answer.headers.update(SAFE)
    return answer


def table_cache(catalog: str = "") -> TableCache:
    """Returns the cache of a catalog's tables, one for the whole server process; empty means the usual catalog.

    Raises:
        HTTPException: no policy names the catalog.
    """
    where = _meant(catalog)
    with _MAKING:
        return _table_cache(where)


def _caches() -> list[TableCache]:
    """Returns the table caches of all catalogs that pages show."""
    return [table_cache(catalog) for catalog in shown_catalogs()]


def _meant(catalog: str) -> str:
    """Returns the catalog that an address means.

    Raises:
        HTTPException: no policy names it.
    """
    all_catalogs = shown_catalogs()
    if catalog and catalog not in all_catalogs:
        raise HTTPException(404)
    return catalog or all_catalogs[0]


@cache
def _table_cache(catalog: str) -> TableCache:
    return TableCache(catalog)


@app.exception_handler(HTTPException)
async def refused(request: Request, error: HTTPException) -> Response:
    """Returns a refusal as the page or JSON that was asked for."""
    if "/api/" in request.url.path or error.status_code == 401:
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
    title, said = {404: ("Not found", "There is no such page, or no longer."), 403: ("Not allowed", error.detail)}.get(
        error.status_code, ("Not done", error.detail)
    )
    return page("error.html", error.status_code, title=title, said=said)


@app.get("/")
async def overview(
    request: Request,
    sort: str = "due",
    find: Annotated[str, Query(max_length=200)] = "",
    at: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Shows all tables: how dirty, how late, what the passes did."""
    caches = await _from_policies(_caches)

    def found() -> list[TableSummary]:
        tables = [s for s in summaries_of(caches) if find.lower() in s.table.lower()]
        return sorted(tables, key=SORTS["table"])

    tables = await run_in_threadpool(found)
    sort = _sort(tables, SORTS, sort, "due")
    shown, number, last = part(tables, at, PER_PAGE)
    next_runs = await _next_runs(request, [(s.catalog, s.table) for s in shown])
    return await run_in_threadpool(
        lambda: page(
            "overview.html", tables=shown, all=tables, sort=sort, find=find, number=number, last=last, caches=caches,
            next_runs=next_runs,
        )
    )  # fmt: skip


@app.get("/api/tables")
async def tables(catalog: str = "") -> JSONResponse:
    """Returns the overview as JSON: the tables of one catalog, or of all."""
    caches = await _from_policies(lambda: [table_cache(catalog)] if catalog else _caches())
    return await run_in_threadpool(lambda: JSONResponse(_summaries(caches)))


def _summaries(caches: Sequence[TableCache]) -> list[dict[str, Any]]:
    """Returns the summaries of all topics as JSON objects.

    Raises:
        HTTPException: a catalog was never read to the end, so that its tables would be missing.
    """
    summaries = [summary.model_dump() for summary in summaries_of(caches)]
    if unread := next((cache for cache in caches if not cache.looked), None):
        why = unread.problem or "its tables are being read for the first time"
        mend = "ask again, or of another catalog with ?catalog=" if len(caches) > 1 else "ask again"
        raise HTTPException(503, f"catalog {unread.catalog}: {why}; {mend}.", {"Retry-After": "5"})
    return summaries


@app.get("/tables/{name:path}")
async def table(
    request: Request,
    name: str,
    sort: str = "",
    at: Annotated[int, Query(ge=1)] = 1,
    dag: str = "",
    run: str = "",
    catalog: str = "",
) -> HTMLResponse:
    """Returns one table: its logs, its history, its settings; and how a run stands that was started here."""
    started = await actions.state(request, dag, run) if dag and run else ""
    where = await _from_policies(lambda: _meant(catalog))
    kept = await report_pages.kept_of(where, name)
    ran, next_run = (dag, run, started), (await _next_runs(request, [(where, name)]))[where, name]
    return await said_of(
        name, catalog_of(where), lambda: _table_page(where, name, sort, at, ran, next_run, is_framed(request), kept)
    )


async def _from_policies(question: Callable[[], T]) -> T:
    """Returns the answer to a question that reads the policy file, whose disk may hang.

    Args:
        question: the function that reads the file.

    Raises:
        HTTPException: the question raised it, or the file's disk does not answer.
    """
    try:
        return await POLICIES.answer(question)
    except HTTPException:
        raise
    except Exception as error:  # the disk does not answer
        raise HTTPException(status_of(error), f"{error}") from None


def _table_page(
    catalog: str,
    name: str,
    sort: str,
    at: int,
    started: tuple[str, str, str],
    next_run: int | str | None,
    framed: bool,
    kept: dict[str, Any],
) -> HTMLResponse:
    from hardpack.rules.causes import removed_by_cause

    from hardpack_airflow.charts import charts

    table_page = table_cache(catalog).table(name)
    settings = [
        (field.alias or at, getattr(table_page.settings, at), table_page.origins[field.alias or at],
         str(field.description).replace("`", ""))
        for at, field in type(table_page.settings).model_fields.items()
    ]  # fmt: skip
    sort = _sort(table_page.logs, LOG_SORTS, sort, "")
    logs, at, last = part(table_page.logs, at, LOGS_PER_PAGE)
    passes = [m for m in reversed(table_page.moments) if m.ended][:PER_PAGE]
    causes = list(removed_by_cause(m.ended.removed for m in passes if m.ended))
    return page(
        "table.html", page=table_page, logs=logs, sort=sort, number=at, last=last, summary=table_page.summary,
        charts=charts(table_page.moments), settings=settings, passes=passes, causes=causes, started=started,
        framed=framed, next_run=next_run, actions=actions.MEANINGS,
        **kept,
    )  # fmt: skip


@app.post("/tables/{name:path}/{action}")
async def act(request: Request, name: str, action: str, catalog: str = "") -> RedirectResponse:
    """Starts a run of the DAG that does what was asked, with the rights of who asked, and shows the table again."""
    where, cleaning_dag = await _from_policies(lambda: _asked_of(catalog, name, action))
    dag, form = actions.run_of(action, where, name, cleaning_dag)
    run = await actions.start(request, dag, form)
    query = {"dag": dag, "run": run} | ({"catalog": catalog} if catalog else {})
    shown = request.url.replace(path=page_path(f"/tables/{quote(name)}"), query="").include_query_params(**query)
    return RedirectResponse(f"{shown.path}?{shown.query}", 303)


def _asked_of(catalog: str, name: str, action: str) -> tuple[str, str]:
    """Returns the catalog that an address means, and the id of the DAG that cleans a table.

    The id is empty for an action by hand, and for a table that no policy names.

    Raises:
        HTTPException: no policy names the catalog, or the policy file or the configuration is wrong.
    """
    from hardpack.failures import as_hardpack_error

    where = _meant(catalog)
    try:
        # an action by hand needs no policy
        return where, "" if action in BY_HAND else _dag_of(where, name)
    except Exception as error:  # a wrong policy file, or section of Airflow's configuration
        raise HTTPException(409, f"{as_hardpack_error(error)}") from None


@app.get("/api/tables/{name:path}")
async def table_json(name: str, catalog: str = "") -> JSONResponse:
    """Returns one table as JSON."""
    from hardpack.failures import of_table

    where = await _from_policies(lambda: _meant(catalog))
    try:
        table_page = await catalog_of(where).answer(lambda: table_cache(where).table(name))
    except HTTPException:
        raise
    except Exception as error:  # whatever it is, the answer says it
        return JSONResponse({"detail": of_table(name, error)}, status_of(error))
    return JSONResponse(
        {
            "summary": table_page.summary.model_dump(),
            "logs": [log.model_dump() for log in table_page.logs],
            "history": [m.model_dump() for m in table_page.moments],
            "settings": json.loads(table_page.settings.model_dump_json(by_alias=True)),
            "origins": table_page.origins,
        }
    )


@app.get("/style.css")
def style() -> FileResponse:
    """Returns the pages' style."""
    return FileResponse(PAGES / "style.css", media_type="text/css")


def _sort(rows: list[T], by: dict[str, Callable[[T], Any]], asked: str, usual: str) -> str:
    """Sorts rows in place by the column that was asked for, or by the usual one when there is no such column.

    A minus before the name reverses the order. Returns the name by which it sorted, with its minus.
    """
    name = asked.removeprefix("-")
    if name not in by:
        asked = name = usual
    if name:
        rows.sort(key=by[name], reverse=asked.startswith("-"))
    return asked


def _dag_of(catalog: str, table: str) -> str:
    """Returns the id of the DAG that cleans a table, empty when none does.

    Raises:
        BadInput: the policy file is wrong.
    """
    from hardpack.policy.file import policies_in_force

    from hardpack_airflow.config import default_policy
    from hardpack_airflow.factory import dag_id

    if policies := policies_in_force():
        policy = policies.in_catalog(catalog).of(table)
    else:
        only = default_policy()
        policy = only if only.names(table) else None
    return dag_id(policy.name) if policy else ""


async def _next_runs(request: Request, tables: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int | str | None]:
    """Returns when the DAG of each table's policy starts a run again; see `actions.next_runs`.

    A table that no policy names has None. So have all when the policy file is wrong, which Airflow shows at its DAGs.
    """

    def dags() -> dict[tuple[str, str], str]:
        try:
            return {table: _dag_of(*table) for table in tables}
        except Exception as error:  # the page is of use without next runs
            log.warning("no next run can be told: %s", error)
            return {}

    of_tables = await _from_policies(dags)
    found = await actions.next_runs(request, filter(None, of_tables.values()))
    return {table: found.get(of_tables.get(table, "")) for table in tables}
