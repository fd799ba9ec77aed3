"""Reports of runs and pages of Data Docs where they are kept: HARDPACK_HOME, and S3 where `reports_s3` names a place.

With S3 the pages need no disk that Airflow's server and its workers share.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hardpack_airflow import s3_copy
from hardpack_airflow.config import setting

log = logging.getLogger(__name__)
REPORTS, DOCS, VALIDATIONS = "reports", "data_docs", "validations"
COPIED_SECONDS = 60
"""A copy on S3 is at most so much younger than its file; a younger one is a copy of another file."""


def read(folder: str, path: str) -> bytes | None:
    """Returns the content of a file of `REPORTS` or `DOCS`; None when it is not there, or lies outside the folder.

    Of a report that both this disk and S3 have the newer one counts, as a cleared task may write it again elsewhere.
    """
    root = (_home() / folder).resolve()
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root) or file == root:
            return None
        name, is_here = f"{folder}/{file.relative_to(root).as_posix()}", file.is_file()
        if is_here and (folder != REPORTS or not _newer_elsewhere(name, file)):
            return file.read_bytes()
    except (OSError, ValueError):  # a name that no file can have
        return None
    return s3_copy.read(name)


def _newer_elsewhere(name: str, file: Path) -> bool:
    from hardpack.errors import HardpackError

    try:
        return s3_copy.uploaded(name).get(name, 0.0) > file.stat().st_mtime + COPIED_SECONDS
    except (HardpackError, ValueError) as error:  # the file that is here can be shown
        log.warning("whether S3 has a newer %s is not known: %s", name, error)
        return False


def newest_reports() -> dict[str, float]:
    """Returns when each run's report was written, in seconds, by its name without `.json`, the newest first."""
    times = s3_copy.uploaded(f"{REPORTS}/")
    for file in (_home() / REPORTS).glob("*.json"):
        name = f"{REPORTS}/{file.name}"
        with suppress(FileNotFoundError):  # a run may remove old reports meanwhile
            times[name] = max(times.get(name, 0.0), file.stat().st_mtime)
    return {Path(name).stem: times[name] for name in sorted(times, key=lambda name: times[name], reverse=True)}


def newest_docs(number: int, table: str = "", named: Collection[str] = ()) -> list[tuple[str, str]]:
    """Returns the title and the path inside Data Docs of the newest pages.

    There may be hundreds of thousands of pages, and S3 lists a thousand at a time. So S3 is searched only when a table
    is given.

    Args:
        number: most pages to return.
        table: only this table's pages; empty for all.
        named: paths of pages that reports name. They are used with S3 alone; without it this disk has the newest.
    """
    from hardpack.compaction.data_docs import beginning_of, is_of, newest_first, newest_pages

    paths = {
        *(named if setting("reports_s3") else ()),
        *(path for _, path in newest_pages(_home() / DOCS, number, table)),
    }
    suites = s3_copy.folders(f"{DOCS}/{VALIDATIONS}/") if table else ()
    listed = [f"{suite}{beginning_of(table)}" for suite in suites]
    elsewhere = (name.removeprefix(f"{DOCS}/") for beginning in listed for name in s3_copy.uploaded(beginning))
    paths |= {path for path in elsewhere if path.endswith(".html") and is_of(path, table)}
    return newest_first(paths)[:number]


def path_in_docs(page: str) -> str:
    """Returns the path of a page inside Data Docs, given the whole path in a report; empty when it lies outside."""
    # both names are looked for, as the home itself may lie below a folder named data_docs
    inside = page.partition(f"/{DOCS}/{VALIDATIONS}/")[2]
    return f"{VALIDATIONS}/{inside}" if inside else ""


def _home() -> Path:
    from hardpack.home import default_home

    return default_home()
