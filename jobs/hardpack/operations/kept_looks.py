"""What looks at tables found, kept in hardpack's home for processes to come; it is a help, and may be lost."""

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
    """A table as it was when it was looked at last."""

    location: str
    """Where its metadata file was."""
    policy: str
    """All that the policy file said of it."""
    plan: Plan | None
    """None when it is no topic."""


def read_looks(file: Path) -> dict[str, KeptLook]:
    """Returns by table what was found; nothing where no file is kept, or another version of hardpack kept it."""
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
    """Replaces what is kept; that it cannot be written is no reason to stop."""
    lines = [_head()] + [
        [name, one.location, one.policy, one.plan.model_dump_json() if one.plan else ""] for name, one in looks.items()
    ]
    try:
        replace_file(file, "".join(f"{json.dumps(line)}\n" for line in lines))
    except OSError as error:
        log.warning("what the look found could not be kept: %s", error)


def _head() -> list[object]:
    """Returns the first line: another version may decide otherwise."""
    return ["hardpack looks", FORMAT, version("hardpack")]
