"""hardpack's pages inside Airflow's server, behind Airflow's own login.

Every file goes through an authorised route; a static mount would be public even inside a protected application. Pages
need nothing beyond the server: no script, no font, no style from elsewhere, and browsers are told to fetch none.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse

from hardpack_airflow.catalog_calls import call
from hardpack_airflow.config import PREFIX, setting

if TYPE_CHECKING:
    from hardpack.operations.summary import TableSummary

    from hardpack_airflow.table_cache import TableCache

log = logging.getLogger(__name__)
PAGES = Path(__file__).parent / "pages"
PER_PAGE = 50
_MAKING = threading.Lock()
SORTS: dict[str, Callable[[TableSummary], Any]] = {
    "table": lambda s: s.table,
    "dirty": lambda s: -s.ratio,
    "due": lambda s: -s.due,
    "late": lambda s: -s.overdue_ms,
    "tombstones": lambda s: -(s.tombstones_waiting or 0),
    "size": lambda s: -s.bytes,
    "reclaimed": lambda s: -s.reclaimed,
    "amplification": lambda s: -(s.write_amplification or 0),
}
SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""What a browser may fetch for a page: nothing that is not ours."""

app = FastAPI(
    title="hardpack", dependencies=[Depends(requires_access_view(AccessView.PLUGINS))], redirect_slashes=False,
    docs_url=None, redoc_url=None, openapi_url=None,
)  # fmt: skip


@app.middleware("http")
async def safe(request: Request, call_next: Any) -> Response:
    """Say with every answer what a browser may do with it."""
    answer: Response = await call_next(request)
    answer.headers.update(SAFE)
    return answer


def table_cache() -> TableCache:
    """Returns one for the whole server process."""
    with _MAKING:
        return _table_cache()


@cache
def _table_cache() -> TableCache:
    from hardpack_airflow.table_cache import TableCache

    return TableCache(setting("catalog"))


@app.get("/")
def overview(
    sort: str = "due", find: Annotated[str, Query(max_length=200)] = "", page: Annotated[int, Query(ge=1)] = 1
) -> HTMLResponse:
    """Shows all tables: how dirty, how late, what the passes did."""
    tables = [s for s in table_cache().overview() if find.lower() in s.table.lower()]
    tables.sort(key=lambda s: s.table)
    tables.sort(key=SORTS.get(sort, SORTS["due"]))
    pages = max(1, math.ceil(len(tables) / PER_PAGE))
    page = min(page, pages)
    shown = tables[(page - 1) * PER_PAGE : page * PER_PAGE]
    return _page(
        "overview.html", tables=shown, all=tables, sorts=list(SORTS), sort=sort if sort in SORTS else "due", find=find,
        page=page, pages=pages, watch=table_cache(), next_runs=_next_runs([s.table for s in shown]),
    )  # fmt: skip


@app.get("/api/tables")
def tables() -> JSONResponse:
    """Returns the overview as JSON."""
    return JSONResponse([s.model_dump() for s in table_cache().overview()])


@app.get("/tables/{name}")
async def table(name: str) -> HTMLResponse:
    """Returns one table: its logs, its history, its settings."""
    from hardpack.failures import of_table

    try:
        return await call(lambda: _table_page(name))
    except Exception as error:  # whatever it is, the page says it
        return _page("error.html", _status(error), title=name, said=of_table(name, error))


def _table_page(name: str) -> HTMLResponse:
    from hardpack.rules.causes import removed_by_cause

    from hardpack_airflow.charts import charts

    found = table_cache().table(name)
    fields = type(found.settings).model_fields
    settings = [
        (
            field.alias or at,
            _value(getattr(found.settings, at)),
            found.origins[field.alias or at],
            str(field.description).replace("`", ""),
        )
        for at, field in fields.items()
    ]
    passes = [m for m in reversed(found.moments) if m.report][:PER_PAGE]
    causes = list(removed_by_cause(log for m in passes if m.report for log in m.report.logs))
    return _page(
        "table.html", page=found, summary=found.summary, charts=charts(found.moments), settings=settings,
        passes=passes, causes=causes, next_run=_next_runs([name])[name], validations=_validations(name),
    )  # fmt: skip


@app.get("/api/tables/{name}")
async def table_json(name: str) -> JSONResponse:
    """Returns one table as JSON."""
    from hardpack.failures import of_table

    try:
        found = await call(lambda: table_cache().table(name))
    except Exception as error:  # whatever it is, the answer says it
        return JSONResponse({"detail": of_table(name, error)}, _status(error))
    return JSONResponse(
        {
            "summary": found.summary.model_dump(),
            "logs": [log.model_dump() for log in found.logs],
            "history": [m.model_dump() for m in found.moments],
            "settings": json.loads(found.settings.model_dump_json(by_alias=True)),
            "origins": found.origins,
        }
    )


@app.get("/reports")
def reports(page: Annotated[int, Query(ge=1)] = 1) -> HTMLResponse:
    """Returns the reports of runs and the pages of Data Docs, the newest first."""
    files = _reports()
    pages = max(1, math.ceil(len(files) / PER_PAGE))
    page = min(page, pages)
    return _page(
        "reports.html", files=files[(page - 1) * PER_PAGE : page * PER_PAGE], page=page, pages=pages,
        validations=_validations(),
    )  # fmt: skip


@app.get("/reports/{name}")
def report(name: str) -> FileResponse:
    """Returns the report of one run, JSON."""
    return FileResponse(_inside("reports", name), media_type="application/json")


@app.get("/docs/{path:path}", response_model=None)
def docs(path: str) -> FileResponse | RedirectResponse:
    """Returns one file of Data Docs, and none outside their folder.

    Their own index needs scripts from elsewhere; ours does not.
    """
    return RedirectResponse(f"{PREFIX}/reports") if path == "index.html" else FileResponse(_inside("data_docs", path))


@app.get("/style.css")
def style() -> FileResponse:
    """Returns the pages' style."""
    return FileResponse(PAGES / "style.css", media_type="text/css")


def _status(error: Exception) -> int:
    """Returns 404 for what is not there or is no topic, 503 for what does not answer, else 500."""
    return {"BadInput": 404, "Unreadable": 404, "Unavailable": 503}.get(type(error).__name__, 500)


def _home() -> Path:
    from hardpack.home import default_home

    return default_home()


def _inside(folder: str, path: str) -> Path:
    root = (_home() / folder).resolve()
    try:
        file = (root / path).resolve()
        good = file.is_relative_to(root) and file.is_file()
    except (OSError, ValueError):  # a name that no file can have
        good = False
    if not good:
        raise HTTPException(404)
    return file


def _reports() -> list[Path]:
    times: dict[Path, float] = {}
    for file in (_home() / "reports").glob("*.json"):
        with suppress(FileNotFoundError):  # old reports go while this looks
            times[file] = file.stat().st_mtime
    return sorted(times, key=lambda file: times[file], reverse=True)


def _validations(table: str = "") -> list[tuple[str, str]]:
    """Returns the title and address of each page of Data Docs, of one table or all, the newest first."""
    from hardpack.compaction.data_docs import newest_pages

    found = newest_pages(_home() / "data_docs", PER_PAGE, table)
    return [(title, f"{PREFIX}/docs/{path}") for title, path in found]


def _next_runs(tables: Sequence[str]) -> dict[str, int | None]:
    """Returns when the schedules of the tables' policies start a run again, ms.

    None by hand, when no policy is theirs, and when the policy file is wrong, which Airflow shows at its DAGs.
    """
    from croniter import croniter
    from hardpack.policy import policies_in_force

    from hardpack_airflow.config import default_policy

    try:
        found, now = policies_in_force(), time.time()
        policies = {name: found.of(name) if found else default_policy() for name in tables}
        return {
            name: int(croniter(policy.schedule, now).get_next(float) * 1000) if policy and policy.schedule else None
            for name, policy in policies.items()
        }
    except Exception as error:  # the page has more to say than this
        log.warning("no next run can be told: %s", error)
        return dict.fromkeys(tables)


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from rich.filesize import decimal

    templates = Environment(loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined)
    templates.globals["prefix"] = PREFIX
    templates.filters |= {"size": lambda n: decimal(int(n)), "moment": _moment, "span": _span}
    return templates


def _moment(ms: int | None) -> str:
    from hardpack.clock import moment

    return moment(ms)


def _value(value: Any) -> str:
    """Returns a setting's value for people."""
    if value is None:
        return "unset"
    return "unlimited" if value in (sys.maxsize, sys.float_info.max) else f"{value}"


def _span(ms: int) -> str:
    """Returns a time between two moments, in the unit that fits."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= length:
            return f"{ms / length:.1f} {unit}"
    return f"{ms} ms"


def _page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates().get_template(template).render(**values), status)
