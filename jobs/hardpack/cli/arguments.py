"""Reads what is given on the command line: plans in files, pairs of name and value, keys from standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hardpack.clock import time_of
from hardpack.compaction.plan import Plan
from hardpack.errors import BadInput
from hardpack.rules.times import LONG_MAX


def read_plan(path: Path) -> Plan:
    """Reads a plan from a file.

    Raises:
        BadInput: there is no such file, or no plan in it.
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


def settings_of(given: Sequence[str] | None) -> dict[str, str]:
    """Reads all settings that `--set` was given.

    Raises:
        BadInput: a setting has no value, or is given twice.
    """
    settings = dict[str, str]()
    for name, value in map(name_and_value, given or ()):
        if name in settings:
            raise BadInput(f"--set {name} is given twice, expected one value; leave one out.")
        settings[name] = value
    return settings


def place_of(text: str, name: str, whole: str) -> dict[str, int]:
    """Reads where reading begins or ends, an offset or a time in ISO 8601, as an argument for `TopicReader.read`.

    Args:
        text: what was given.
        name: name of the argument for an offset; the argument for a time has `_time` after it.
        whole: the word for no bound, which gives no argument.

    Raises:
        BadInput: the text is none of these.
    """
    if text == whole:
        return {}
    try:
        # Python refuses to read a number of thousands of digits, and no offset has more than nineteen
        if text.isdecimal() and len(text.lstrip("0")) <= len(str(LONG_MAX)):
            return {name: int(text)}
        if text.lstrip("-").isdecimal():
            raise BadInput("an offset is a whole number from 0 on")
        return {f"{name}_time": time_of(text)}
    except BadInput:
        raise BadInput(
            f"{text!r} is no place in a log, expected an offset as in 1000, a time as in 2026-01-31T12:00Z, or {whole}."
        ) from None


def from_stdin() -> bytes:
    """Returns all of standard input but the one end of line that `echo` adds."""
    if sys.stdin is None:
        raise BadInput("standard input is closed, from which the key was to be read.")
    given = sys.stdin.buffer.read()
    return given[:-1].removesuffix(b"\r") if given.endswith(b"\n") else given
