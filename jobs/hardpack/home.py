"""The one folder outside the tables: jars, validation results, Data Docs, reports. None is needed to recover."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import uuid
from pathlib import Path

from hardpack.errors import BadInput

MARKED = re.compile(r"-[0-9a-f]{12}$")
"""The end of a name that `file_name` has changed: a hyphen and digits of the text's hash."""


def default_home() -> Path:
    """Returns HARDPACK_HOME, else `.hardpack` in the current folder."""
    return Path(os.environ.get("HARDPACK_HOME") or ".hardpack").absolute()


def trusted(path: Path) -> Path:
    """Returns the path of a file or folder that nobody but this user and root can have put there.

    What lies in it is run or obeyed.

    Raises:
        BadInput: the path or the folder that it lies in belongs to another user, or other users may write to it.
        OSError: it is not there.
    """
    for place in (path.parent, path):
        status = place.stat()
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        # in a sticky folder, as /tmp is, nobody can replace another user's files
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and place != path
        fixed = os.statvfs(place).f_flag & os.ST_RDONLY
        if (status.st_uid not in (os.geteuid(), 0)) or (others and not sticky and not fixed):
            raise BadInput(
                f"{place} is owned by user {status.st_uid} with mode {stat.S_IMODE(status.st_mode):o}, expected it to "
                f"be yours or root's and writable by nobody else, as jars and policies there are obeyed; mend it by "
                f"`chown` or `chmod go-w {place}`."
            )
    return path


def replace_file(path: Path, text: str) -> None:
    """Writes a file, and its folder if missing; a reader always finds the file whole, as before or as after.

    Raises:
        OSError: the disk is full, away or read-only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{uuid.uuid4()}.part")
    try:
        part.write_text(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def file_name(text: str, most: int = 100, dots: bool = True, also: str = "\0") -> str:
    """Returns a text as part of a file's name: unchanged where it is plain and short, else cut and with its hash.

    Args:
        text: of whatever kind and length.
        most: most characters of the result, at least 20.
        dots: whether a dot may stand in the result.
        also: a text that divides the parts of a name, so that it may not stand in the result.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]" if dots else r"[^A-Za-z0-9_-]", "_", text).replace(also, "_")
    # a text that ends like a name with a hash could be the name of another text
    if plain == text and len(text) <= most and text.strip(".") and not MARKED.search(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[: most - 13].strip('.')}-{digest}"
