"""What is in the repository? A git history as a keyed topic.

Key: path. Value: mode and blob id, null when the path is deleted. One record per change along the first parents
of HEAD, so that the topic compacted in full equals `git ls-tree -r HEAD`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hardpack.demo.topic import COLUMNS, Offsets, Partitioner, create_topic
from hardpack.errors import BadInput

SEGMENTS = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A path at a commit, with its mode and blob id as `mode blob`, or None when the path is deleted."""

    at_ms: int
    path: bytes
    content: str | None


def git(repository: Path, *arguments: str) -> bytes:
    """Returns the output of a git command.

    Raises:
        BadInput: it is no repository, or git is not there.
    """
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", b"") or str(error).encode()
        raise BadInput(
            f"{repository} is not a git repository with a commit ({detail.decode(errors='replace').strip()}); "
            "name one, as in `hardpack demo git .`"
        ) from None
    return done.stdout


def changes(repository: Path) -> Iterator[Change]:
    """Yields every change of every path, oldest first; a merge counts as its difference to the first parent."""
    raw = git(
        repository, "log", "--reverse", "--first-parent", "--diff-merges=first-parent", "--root", "--raw", "-z",
        "--no-renames", "--no-abbrev", "--format=%x01%ct", "HEAD",
    )  # fmt: skip
    for commit in raw.split(b"\x01")[1:]:
        stamp, _, rest = commit.partition(b"\0")
        fields = iter(rest.split(b"\0"))
        for field in fields:
            if not (meta := field.strip(b"\n")).startswith(b":"):
                continue
            _, mode, _, blob, status = meta[1:].decode().split(" ")
            gone = status.startswith("D")
            yield Change(int(stamp.split(b"\n")[0]) * 1000, next(fields), None if gone else f"{mode} {blob}")


def load_git(catalog: Catalog, name: str, repository: Path, partitions: int = 1) -> Table:
    """Creates the table and appends the history in a few commits, so that each log has several segments."""
    history = list(changes(repository))
    table = create_topic(catalog, name, {"hardpack.active.segment": "none", "hardpack.idle.tombstones": "expire"})
    partition_of, offset_of = Partitioner(partitions), Offsets()
    numbers = [partition_of(c.path) for c in history]
    topic = pa.table(
        {
            "partition": pa.array(numbers, pa.int32()),
            "offset": pa.array([offset_of(p) for p in numbers], pa.int64()),
            "timestamp": pa.array([c.at_ms * 1000 for c in history], pa.int64()).cast(COLUMNS.field("timestamp").type),
            "key": pa.array([c.path for c in history], pa.binary()),
            "value": pa.array([c.content for c in history], pa.string()),
        },
        schema=COLUMNS,
    )
    step = max(1, -(-len(history) // SEGMENTS))
    for start in range(0, len(history), step):
        table.append(topic.slice(start, step))
    return table
