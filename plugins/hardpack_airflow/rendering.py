"""How the pages become text: their templates, and numbers, times and money written for people."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse

from hardpack_airflow.config import airflow_path, catalog_query, page_path, setting
from hardpack_airflow.patience import Asked

PAGES = Path(__file__).parent / "pages"
GB = 10**9
PER_PAGE = 50
T = TypeVar("T")


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Returns a page made of a template, at the time of the clock."""
    from hardpack.clock import clock

    return HTMLResponse(_templates().get_template(template).render(now=clock(), **values), status)


async def said_of(name: str, asked: Asked, shown: Callable[[], HTMLResponse]) -> HTMLResponse:
    """Returns the page that `shown` makes in a thread of `asked`, or a page that says why it cannot be made."""
    from hardpack.failures import of_table

    try:
        return await asked.answer(shown)
    except HTTPException:
        raise
    except Exception as error:  # whatever it is, the page says it
        return page("error.html", status_of(error), title=name, said=of_table(name, error))


def status_of(error: Exception) -> int:
    """Returns 404 for what is not there or is no topic, 503 for what does not answer, else 500."""
    return {"BadInput": 404, "Unreadable": 404, "Unavailable": 503}.get(type(error).__name__, 500)


def part(whole: Sequence[T], at: int, length: int) -> tuple[Sequence[T], int, int]:
    """Returns one part of a long list, the part's number, which is at most the last's, and the number of the last."""
    last = max(1, math.ceil(len(whole) / length))
    at = min(at, last)
    return whole[(at - 1) * length : at * length], at, last


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.globals |= {"at": page_path, "airflow": airflow_path, "price": _price, "in_catalog": catalog_query}
    templates.filters |= {
        "size": _size, "moment": _moment, "when": when, "next_run": _next_run, "span": _span, "value": _value,
        "count": lambda n: "?" if n is None else f"{n:,}", "money": _money,
    }  # fmt: skip
    return templates


def is_framed(request: Request) -> bool:
    """Returns whether a page is shown inside Airflow's frame, in which links to Airflow would open a second one."""
    return request.headers.get("sec-fetch-dest") == "iframe"


def when(ms: int | None, now: int) -> Any:
    """Returns a time as people say it, `3 h ago` or `in 2 d`, with the exact one where the pointer rests."""
    from hardpack.clock import UNITS, moment
    from markupsafe import Markup

    exact = moment(ms)
    if ms is None or exact in ("never", "long ago"):
        return exact
    said = next((f"{abs(ms - now) / length:.0f} {unit}" for unit, length in UNITS if abs(ms - now) >= length), "")
    said = (f"in {said}" if ms > now else f"{said} ago") if said else "now"
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(exact, said)


def _next_run(at: int | str | None, now: int) -> Any:
    """Returns when a DAG starts its next run, for people; a text, such as `paused`, is returned as it is."""
    # the time of a due run is past while Airflow starts it; the page then says now
    return at if isinstance(at, str) else when(at and max(at, now), now)


def _span(ms: int) -> str:
    from hardpack.clock import span

    return span(ms)


def _moment(ms: int | None) -> str:
    from hardpack.clock import moment

    return moment(ms)


def _size(size: int) -> str:
    from rich.filesize import decimal

    return decimal(int(size))


def _price() -> float | None:
    """Returns what a gigabyte costs a month; None when the setting is empty or is no number."""
    try:
        return float(setting("price_per_gb_month"))
    except ValueError:
        return None


def _money(size: int) -> str:
    """Returns what so many bytes cost a month."""
    return f"{(_price() or 0) * size / GB:,.2f}"


def _value(value: Any, name: str) -> str:
    """Returns a setting's value for people."""
    if value is None:
        return "unset"
    if value in (sys.maxsize, sys.float_info.max):
        return "unlimited"
    if not isinstance(value, int) or value < 1000:
        return f"{value}"
    readable = (
        _span(value) if name.endswith(".ms") else _size(value) if "bytes" in name or name.endswith(".size") else ""
    )
    return f"{value:,} ({readable})" if readable else f"{value:,}"
