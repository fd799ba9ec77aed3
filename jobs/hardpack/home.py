"""The one folder outside the tables: jars, validation results, Data Docs, reports; none is needed to recover."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hardpack.errors import BadInput


def default_home() -> Path:
    """HARDPACK_HOME, else `.hardpack` in the current folder."""
    return Path(os.environ.get("HARDPACK_HOME", ".hardpack")).absolute()


def trusted(path: Path) -> Path:
    """Return a file or folder that nobody but its user and root can have put there: what lies in it is run or obeyed.

    Raises:
        BadInput: it, or the folder that it lies in, is another user's, or others may write to it.
        OSError: it is not there.
    """
    for place in (path.parent, path):
        found = place.stat()
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        # in a sticky folder, as /tmp is, nobody can replace what is another's
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and place != path
        fixed = os.statvfs(place).f_flag & os.ST_RDONLY
        if (found.st_uid not in (os.geteuid(), 0)) or (others and not sticky and not fixed):
            raise BadInput(
                f"{place} is owned by user {found.st_uid} with mode {stat.S_IMODE(found.st_mode):o}, expected it to be "
                f"yours or root's and writable by nobody else, as jars and policies there are obeyed; mend it by "
                f"`chown` or `chmod go-w {place}`."
            )
    return path
