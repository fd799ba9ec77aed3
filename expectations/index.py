"""The index of Data Docs: the newest pages, written anew after each.

That of Great Expectations reads every result there is, and takes away pages of which it has not yet seen the result:
those of passes that end at the same time.
"""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

LISTED = 100
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>hardpack: Data Docs</title>
<style>body { font: 16px/1.6 system-ui; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }</style>
<h1>Guarantees that were checked</h1>
<p>The newest {{ listed }} first; older pages keep their address.</p>
<ul>
{% for title, address in pages %}<li><a href="{{ address }}">{{ title }}</a></li>
{% endfor %}</ul>
</html>
"""


def write_index(site: Path) -> None:
    """Write the index of a folder of Data Docs.

    Args:
        site: the folder; pages are at validations/SUITE/TITLE/TIME/NAME.html.
    """
    from jinja2 import Environment

    pages = [(_title(page), quote(page.relative_to(site).as_posix())) for page in _newest(site)]
    text = Environment(autoescape=True).from_string(PAGE).render(pages=pages, listed=LISTED)
    site.mkdir(parents=True, exist_ok=True)
    # others may be at the same, or reading it
    file = site / f".index-{uuid.uuid4()}.html"
    try:
        file.write_text(text)
        file.replace(site / "index.html")
    finally:
        file.unlink(missing_ok=True)


def _newest(site: Path) -> list[Path]:
    times: dict[Path, float] = {}
    for folder in _inside(site, "validations/*/*"):
        # old pages go while this looks
        with suppress(OSError):
            times[folder] = folder.stat().st_mtime
    newest = heapq.nlargest(LISTED, times, key=times.__getitem__)
    pages = (page for folder in newest for page in _inside(folder, "*/*.html"))
    return sorted(pages, key=lambda page: page.parent.name, reverse=True)[:LISTED]


def _inside(folder: Path, pattern: str) -> Iterator[Path]:
    found = folder.glob(pattern)
    with suppress(OSError):
        yield from found


def _title(page: Path) -> str:
    title = page.parts[-3].replace("_", " ")
    with suppress(ValueError):
        return f"{datetime.strptime(page.parts[-2], '%Y%m%dT%H%M%S.%fZ'):%Y-%m-%d %H:%M:%S} UTC {title}"
    return title
