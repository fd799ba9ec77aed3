"""The pages of runs' reports and of Data Docs."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hardpack_airflow import stored
from hardpack_airflow.config import page_path
from hardpack_airflow.patience import REPORTS
from hardpack_airflow.rendering import PER_PAGE, is_framed, page, part, said_of
from hardpack_airflow.run_view import tables_of, verdict

if TYPE_CHECKING:
    from hardpack.compaction.report import RunReport

router = APIRouter()


@router.get("/reports")
async def reports(at: Annotated[int, Query(ge=1)] = 1) -> HTMLResponse:
    """Returns the reports of runs and the pages of Data Docs, the newest first."""
    return await said_of("Reports", REPORTS, lambda: _reports_page(at))


def _reports_page(at: int) -> HTMLResponse:
    names, at, last = part(stored.newest_reports(), at, PER_PAGE)
    found = [(name, _report(name)) for name in names]
    runs = [(name, one, tables_of(one) if one else [], verdict(one) if one else "") for name, one in found]
    return page("reports.html", runs=runs, number=at, last=last, validations=stored.newest_docs(PER_PAGE))


@router.get("/reports/{name}")
async def report(request: Request, name: str) -> HTMLResponse:
    """Returns the report of one run."""
    return await said_of("Report", REPORTS, lambda: _report_page(name, is_framed(request)))


def kept_of(catalog: str, table: str) -> dict[str, Any]:
    """Returns what is kept of a table, as its page shows it; of a place that does not answer, why.

    Returns:
        `runs`: of each run that worked on it the report's name, the report, and in words what became of the table;
        `validations`: title and path of its pages of Data Docs; `problem`: why there is neither, else empty.
    """
    from hardpack.errors import Unavailable

    try:
        return {"runs": _runs_of(catalog, table), "validations": stored.newest_docs(PER_PAGE, table), "problem": ""}
    except Unavailable as error:  # the table itself can be shown
        return {"runs": [], "validations": [], "problem": f"{error}"}


def _runs_of(catalog: str, table: str, newest: int = 30) -> list[tuple[str, RunReport, str]]:
    found = []
    for name in stored.newest_reports()[:newest]:
        if not (run := _report(name)) or run.catalog not in ("", catalog):
            continue
        said = [error for error in run.errors if error.startswith(f"{table}: ")]
        said += [f"{one.removed:,} rows removed, {one.verdict}" for one in tables_of(run) if one.name == table]
        if said:
            found.append((name, run, "; ".join(said)))
    return found


def _report_page(name: str, framed: bool) -> HTMLResponse:
    found = _report(name)
    if not found:
        raise HTTPException(404)
    return page("run.html", name=name, run=found, tables=tables_of(found), verdict=verdict(found), framed=framed)


@router.get("/api/reports/{name}")
async def report_json(name: str) -> Response:
    """Returns the report of one run as JSON, by the published schema."""
    return Response(await REPORTS.answer(lambda: _file(stored.REPORTS, f"{name}.json")), media_type="application/json")


@router.get("/docs/{path:path}", response_model=None)
async def docs(path: str) -> Response:
    """Returns one file of Data Docs, and none outside their folder.

    Their own index needs scripts from elsewhere; ours does not.
    """
    if path == "index.html":
        return RedirectResponse(page_path("/reports"))
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Response(await REPORTS.answer(lambda: _file(stored.DOCS, path)), media_type=kind)


def _file(folder: str, path: str) -> bytes:
    found = stored.read(folder, path)
    if found is None:
        raise HTTPException(404)
    return found


def _report(name: str) -> RunReport | None:
    """Returns a run's report; None of one that is not there, or was not written by us."""
    from hardpack.compaction.report import RunReport
    from pydantic import ValidationError

    text = stored.read(stored.REPORTS, f"{name}.json")
    try:
        return RunReport.model_validate_json(text) if text else None
    except ValidationError:
        return None
