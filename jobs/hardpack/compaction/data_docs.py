"""The pages of Data Docs: what they are called, and which are the newest."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePosixPath

from hardpack.home import file_name
from hardpack.rules.model import Partition

PARTITION = "_partition_"
"""Separates the table's name from the rest of the title in a page's path."""


def page_title(table: str, logs: Sequence[Partition], what: str) -> str:
    """Names a page of Data Docs by table, partitions and run; it becomes part of a path, so it is short."""
    few = file_name(partitions(logs, "-").replace(" ", "-"), 80) if logs else "all"
    return f"{file_name(table, also=PARTITION)} partition {few} {what}"


def partitions(logs: Sequence[Partition], between: str = ", ") -> str:
    """Returns the names of some logs as one text; of more than eight only the first, the last and their number."""
    names = list(map(str, logs))
    return between.join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]} of {len(names)}"


def newest_pages(site: Path, number: int, table: str = "") -> list[tuple[str, str]]:
    """Returns the title of each of the newest pages, and its path inside the folder.

    Args:
        site: the folder; pages are at validations/SUITE/TITLE/TIME/NAME.html, the title begins with the table's name.
        number: most pages to return.
        table: only pages of this table; empty for all tables.
    """
    times: dict[Path, float] = {}
    for folder in _inside(site, "validations/*/*"):
        # old pages may be deleted while the folder is read
        with suppress(OSError):
            if _names(folder.name, table):
                times[folder] = folder.stat().st_mtime
    newest = heapq.nlargest(number, times, key=times.__getitem__)
    pages = (page for folder in newest for page in _inside(folder, "*/*.html"))
    return newest_first(page.relative_to(site).as_posix() for page in pages)[:number]


def folders_of_pages(site: Path) -> int:
    """Returns how many folders of pages there are: one for each title."""
    return sum(1 for _ in _inside(site, "validations/*/*"))


def newest_first(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the title and path of pages, the newest first.

    Args:
        paths: of the pages, inside the folder of Data Docs.
    """
    pages = sorted(map(PurePosixPath, paths), key=lambda page: page.parent.name, reverse=True)
    return [(_title(page), page.as_posix()) for page in pages]


def is_of(path: str, table: str) -> bool:
    """Returns whether a path inside the folder of Data Docs is that of a page, and of the table where one is named."""
    parts = PurePosixPath(path).parts
    return len(parts) == 5 and _names(parts[2], table)


def beginning_of(table: str) -> str:
    """Returns the beginning that the titles of a table's pages share, as it stands in paths."""
    return f"{file_name(table, also=PARTITION)}{PARTITION}"


def _names(title: str, table: str) -> bool:
    return not table or title.startswith(beginning_of(table))


def _inside(folder: Path, pattern: str) -> Iterator[Path]:
    paths = folder.glob(pattern)
    with suppress(OSError):
        yield from paths


def _title(page: PurePosixPath) -> str:
    table, partition, rest = page.parts[-3].partition(PARTITION)
    title = f"{table}{(partition + rest).replace('_', ' ')}"
    with suppress(ValueError):
        return f"{datetime.strptime(page.parts[-2], '%Y%m%dT%H%M%S.%fZ'):%Y-%m-%d %H:%M:%S} UTC {title}"
    return title
