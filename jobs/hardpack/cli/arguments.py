"""What is given on the command line, read: plans in files, pairs of name and value, keys from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from hardpack.compaction.plan import Plan
from hardpack.errors import BadInput


def read_plan(path: Path) -> Plan:
    """Reads a plan from a file.

    Raises:
        BadInput: no such file, or no plan in it.
    """
    try:
        return Plan.from_json(path.read_text())
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror}); write a plan with `hardpack plan T --json`."
        ) from None
    except ValueError:
        raise BadInput(f"{path} is no text file; write a plan with `hardpack plan T --json`.") from None


def name_and_value(text: str) -> tuple[str, str]:
    """Reads a setting as `--set` takes it.

    Raises:
        BadInput: it has no value.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--set {text!r} has no value, expected NAME=VALUE as in delete.retention.ms=3600000.")
    return name.removeprefix("hardpack."), value


def from_stdin() -> bytes:
    """Returns all of standard input but the one end of line that `echo` adds."""
    return sys.stdin.buffer.read().removesuffix(b"\n").removesuffix(b"\r")
