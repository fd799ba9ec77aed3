"""Reports of runs and pages of Data Docs where they are kept: HARDPACK_HOME, and S3 where `reports_s3` names a place.

With S3 the pages need no disk that Airflow's server and its workers share.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hardpack_airflow import s3_copy

REPORTS, DOCS = "reports", "data_docs"


def read(folder: str, path: str) -> bytes | None:
    """Returns a file inside one of the two folders, None when there is none, or when the path leads out of it."""
    root = (_home() / folder).resolve()
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root) or file == root:
            return None
        if file.is_file():
            return file.read_bytes()
    except (OSError, ValueError):  # a name that no file can have
        return None
    return s3_copy.read(f"{folder}/{file.relative_to(root).as_posix()}")


def newest_reports() -> dict[str, float]:
    """Returns when each run's report was written, in seconds, by its name without `.json`, the newest first."""
    times = s3_copy.uploaded(f"{REPORTS}/")
    for file in (_home() / REPORTS).glob("*.json"):
        with suppress(FileNotFoundError):  # old reports go while this looks
            times[f"{REPORTS}/{file.name}"] = file.stat().st_mtime
    return {Path(name).stem: times[name] for name in sorted(times, key=lambda name: times[name], reverse=True)}


def newest_docs(number: int, table: str = "") -> list[tuple[str, str]]:
    """Returns the title and the path inside Data Docs of the newest pages.

    Args:
        number: so many at most.
        table: its pages alone; empty for all.
    """
    from hardpack.compaction.data_docs import beginning_of, is_of, newest_first, newest_pages

    paths, all_pages = {path for _, path in newest_pages(_home() / DOCS, number, table)}, f"{DOCS}/validations/"
    # there may be hundreds of thousands, of which S3 lists a thousand at a time
    listed = [f"{suite}{beginning_of(table)}" for suite in s3_copy.folders(all_pages)] if table else [all_pages]
    elsewhere = (name.removeprefix(f"{DOCS}/") for beginning in listed for name in s3_copy.uploaded(beginning))
    paths |= {path for path in elsewhere if path.endswith(".html") and is_of(path, table)}
    return newest_first(paths)[:number]


def path_in_docs(page: str) -> str:
    """Returns where a page lies inside Data Docs, of which a report names the whole path; empty when outside."""
    return page.partition(f"/{DOCS}/")[2]


def _home() -> Path:
    from hardpack.home import default_home

    return default_home()
