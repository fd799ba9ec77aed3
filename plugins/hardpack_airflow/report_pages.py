"""The pages of runs' reports and of Data Docs."""

from __future__ import annotations

import mimetypes
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hardpack_airflow import stored
from hardpack_airflow.config import page_path
from hardpack_airflow.patience import REPORTS
from hardpack_airflow.rendering import PER_PAGE, is_framed, page, part, said_of, status_of
from hardpack_airflow.run_view import RunInBrief, tables_of, verdict

if TYPE_CHECKING:
    from hardpack.compaction.report import RunReport

router = APIRouter()
KEPT_SECONDS = 5.0
"""How long a table's page waits for its reports and pages of Data Docs; it can be shown without them."""
NEWEST_RUNS = 30
BRIEFS = 500
"""Most runs that a server remembers in brief; a run that cleaned a hundred tables takes some kilobytes."""


@router.get("/reports")
async def reports(at: Annotated[int, Query(ge=1)] = 1) -> HTMLResponse:
    """Returns the reports of runs and the pages of Data Docs, the newest first."""
    return await said_of("Reports", REPORTS, lambda: _reports_page(at))


def _reports_page(at: int) -> HTMLResponse:
    reports, at, last = part(list(stored.newest_reports().items()), at, PER_PAGE)
    runs = [(name, _in_brief(name, written)) for name, written in reports]
    named = {path for _, run in runs if run for path in run.docs}
    return page("reports.html", runs=runs, number=at, last=last, validations=stored.newest_docs(PER_PAGE, named=named))


@router.get("/reports/{name}")
async def report(request: Request, name: str) -> HTMLResponse:
    """Returns the report of one run."""
    return await said_of("Report", REPORTS, lambda: _report_page(name, is_framed(request)))


async def kept_of(catalog: str, table: str) -> dict[str, Any]:
    """Returns the runs and the pages of Data Docs of a table, or why they cannot be read.

    Returns:
        `runs`: for each run that worked on the table, the report's name, the report in brief, and in words why the run
        worked on it and what became of it; `validations`: title and path of the table's pages of Data Docs; `problem`:
        why there is neither, else empty.
    """
    try:
        return await REPORTS.answer(
            lambda: {
                "runs": _runs_of(catalog, table),
                "validations": stored.newest_docs(PER_PAGE, table),
                "problem": "",
            },
            KEPT_SECONDS,
        )
    except Exception as error:  # whatever it is, the table itself can be shown
        return {"runs": [], "validations": [], "problem": f"{error}"}


def _runs_of(catalog: str, table: str) -> list[tuple[str, RunInBrief, str, str]]:
    runs = []
    for name, written in islice(stored.newest_reports().items(), NEWEST_RUNS):
        run = _in_brief(name, written)
        if run and run.catalog in ("", catalog):
            why, said = run.of_table(table)
            if said:
                runs.append((name, run, why, said))
    return runs


def _in_brief(name: str, written: float) -> RunInBrief | None:
    """Returns a run's report in brief; None when there is no such file, or it is no report of hardpack's."""
    try:
        return _brief(name, written)
    except LookupError:
        return None


@lru_cache(BRIEFS)
def _brief(name: str, _written: float) -> RunInBrief:
    """Returns a report in brief. Reads it once, and again when it was written again, which `_written` tells.

    Raises:
        LookupError: there is no report. An error is not remembered, so the next call reads again.
    """
    report = _report(name)
    if not report:
        raise LookupError(name)
    return RunInBrief.of(report)


def _report_page(name: str, framed: bool) -> HTMLResponse:
    report = _report(name)
    if not report:
        raise HTTPException(404)
    tables = tables_of(report)
    return page("run.html", name=name, run=report, tables=tables, verdict=verdict(report, tables), framed=framed)


@router.get("/api/reports/{name}")
async def report_json(name: str) -> Response:
    """Returns the report of one run as JSON, by the published schema."""
    return Response(await _answer(stored.REPORTS, f"{name}.json"), media_type="application/json")


@router.get("/docs/{path:path}", response_model=None)
async def docs(path: str) -> Response:
    """Returns one file of Data Docs, and none outside their folder.

    Their own index needs scripts from elsewhere; ours does not.
    """
    if path == "index.html":
        return RedirectResponse(page_path("/reports"))
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Response(await _answer(stored.DOCS, path), media_type=kind)


async def _answer(folder: str, path: str) -> bytes:
    """Returns the bytes of one file.

    Raises:
        HTTPException: there is no such file, or it cannot be read now, which the answer then says.
    """
    try:
        return await REPORTS.answer(lambda: _file(folder, path))
    except HTTPException:
        raise
    except Exception as error:  # whatever it is, the answer says it
        raise HTTPException(status_of(error), f"{error}") from None


def _file(folder: str, path: str) -> bytes:
    content = stored.read(folder, path)
    if content is None:
        raise HTTPException(404)
    return content


def _report(name: str) -> RunReport | None:
    """Returns a run's report; None when it is not there, or hardpack did not write it.

    Args:
        name: the name of its file without `.json`.
    """
    from hardpack.compaction.report import RunReport

    text = stored.read(stored.REPORTS, f"{name}.json")
    try:
        return RunReport.model_validate_json(text) if text else None
    except ValueError:
        return None
