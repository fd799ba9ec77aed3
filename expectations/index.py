"""The index of Data Docs: the newest pages, written anew after each.

The index of Great Expectations itself reads every result there is. It also removes pages whose result it has not seen
yet, as of passes that end at the same time.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from hardpack.compaction.data_docs import folders_of_pages, newest_pages
from hardpack.home import replace_file

LISTED = 100
MANY_FOLDERS = 1000
"""With more folders of pages the index is written at most once a minute, as that takes a second and more."""
YOUNG_SECONDS = 60
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
"""The content security policy of a page that lies on a disk or on S3, where no server sends one."""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ csp }}">
<title>hardpack: Data Docs</title>
<style>body { font: 16px/1.6 system-ui; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }</style>
<h1>Guarantees that were checked</h1>
<p>The newest {{ listed }} first; older pages keep their address.</p>
<ul>
{% for title, address in pages %}<li><a href="{{ address }}">{{ title }}</a></li>
{% endfor %}</ul>
</html>
"""


def write_index(site: Path, now: float) -> None:
    """Writes the index of a folder of Data Docs, unless there are many pages and it was written just before.

    The pages that are made meanwhile come into it when the next one is made later.

    Args:
        site: the folder; pages are at validations/SUITE/TITLE/TIME/NAME.html.
        now: seconds since the epoch.
    """
    from jinja2 import Environment

    index = site / "index.html"
    if index.exists() and abs(now - index.stat().st_mtime) < YOUNG_SECONDS and folders_of_pages(site) > MANY_FOLDERS:
        return

    pages = [(title, quote(address)) for title, address in newest_pages(site, LISTED)]
    text = Environment(autoescape=True).from_string(PAGE).render(pages=pages, listed=LISTED, csp=CSP)
    # another process may write the index at the same time, or read it
    replace_file(index, text)
