"""Keeps the results of looks in hardpack's home for later processes; they only save time, and may be lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from hardpack.compaction.plan import Plan
from hardpack.home import replace_file

log = logging.getLogger(__name__)
FORMAT = 1


@dataclass(frozen=True, slots=True)
class KeptLook:
    """The result of the last look at one table."""

    location: str
    """Where the table's metadata file was."""
    policy: str
    """What the policy file said of how the table is planned."""
    plan: Plan | None
    """The table's plan; None when it was not adopted."""


def read_looks(file: Path) -> dict[str, KeptLook]:
    """Returns the kept looks by table; empty when there is no file, or another version of hardpack wrote it."""
    try:
        first, *lines = file.read_text().splitlines()
        if json.loads(first) != _head():
            return {}
        return {
            name: KeptLook(location, policy, Plan.model_validate_json(plan) if plan else None)
            for name, location, policy, plan in map(json.loads, lines)
        }
    except (OSError, ValueError, TypeError):  # the next look writes it anew
        return {}


def write_looks(file: Path, looks: Mapping[str, KeptLook]) -> None:
    """Replaces the kept looks; logs a warning when the file cannot be written."""
    lines = [_head()] + [
        [name, one.location, one.policy, one.plan.model_dump_json() if one.plan else ""] for name, one in looks.items()
    ]
    try:
        replace_file(file, "".join(f"{json.dumps(line)}\n" for line in lines))
    except OSError as error:
        log.warning("what the look found could not be kept: %s", error)


def _head() -> list[object]:
    """Returns the first line of the file; it names the version of hardpack, as another version may plan otherwise."""
    return ["hardpack looks", FORMAT, version("hardpack")]
