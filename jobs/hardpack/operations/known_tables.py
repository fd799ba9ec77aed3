"""Remembers which tables of a catalog were adopted when last seen, so that one that cannot be read is known."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)


def adopted_tables(home: Path, catalog: str) -> set[str]:
    """Returns the names of the tables that were adopted when a look last opened them; none when nobody noted any."""
    try:
        return set(json.loads(_file(home, catalog).read_text()))
    except (OSError, ValueError, TypeError):  # it is a help, and the next look writes it anew
        return set()


def note_adopted(home: Path, catalog: str, seen: Mapping[str, bool]) -> None:
    """Adds what a look saw to the file of a catalog; that it cannot be written is no reason to stop.

    Args:
        home: hardpack's home.
        catalog: the catalog's name.
        seen: by the names of the tables that were opened, or that are gone, whether they are adopted.
    """
    before = adopted_tables(home, catalog)
    after = (before - seen.keys()) | {name for name, adopted in seen.items() if adopted}
    if after == before:
        return
    file = _file(home, catalog)
    # others may be at the same; what is lost that way is noted at the next look
    part = file.with_name(f".{uuid.uuid4()}.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(sorted(after)))
        part.replace(file)
    except OSError as error:
        log.warning("which tables are adopted could not be noted: %s", error)


def _file(home: Path, catalog: str) -> Path:
    return home / "adopted" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', catalog)}.json"
