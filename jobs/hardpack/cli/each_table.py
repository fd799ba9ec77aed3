"""Runs a verb on one table, or on several one after another: a table that fails does not stop the others."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import typer
from pydantic import BaseModel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hardpack.api import Hardpack
from hardpack.cli.console import err
from hardpack.cli.options import print_json, say
from hardpack.errors import BadInput, GateRefused
from hardpack.failures import as_hardpack_error

R = TypeVar("R", bound=BaseModel)


def each_table(
    hp: Hardpack,
    patterns: Sequence[str],
    doing: str,
    work: Callable[[str], R],
    shown: Callable[[R], None] | None,
    code_of: Callable[[R], int] = lambda _: 0,
) -> None:
    """Works on the adopted tables that names or globs match, and shows each result as it comes.

    Args:
        hp: the library.
        patterns: tables or globs.
        doing: what is done, for the progress.
        work: what is done to a table.
        shown: prints a result. None prints JSON: an object for one table given by its full name, else a list, in which
            a table that failed has `table`, `error` and `exit_code`.
        code_of: the exit code that a result stands for.

    Raises:
        BadInput: a glob matches no adopted table.
        HardpackError: the error that ended the work, where one table was given by its full name.
        typer.Exit: with `worst` of all tables' exit codes, where it is not 0.
    """
    names = _names(hp, patterns)
    if names == list(patterns) and len(names) == 1:
        with err.status(doing):
            result = work(names[0])
        print_json(result) if shown is None else shown(result)
        if code := code_of(result):
            raise typer.Exit(code)
        return
    outcomes: list[dict[str, object]] = []
    codes: list[int] = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        bar = progress.add_task(doing, total=len(names))
        for name in names:
            progress.update(bar, description=f"{doing} {name}")
            try:
                result = work(name)
            except Exception as error:  # one table must not stop the others
                logging.getLogger("hardpack").info("the trace:", exc_info=error)
                refusal = as_hardpack_error(error)
                codes.append(refusal.exit_code)
                outcomes.append({"table": name, "error": f"{refusal}", "exit_code": refusal.exit_code})
                say(refusal)
            else:
                codes.append(code_of(result))
                outcomes.append(result.model_dump(mode="json", by_alias=True))
                if shown:
                    shown(result)
            progress.advance(bar)
    if shown is None:
        sys.stdout.write(json.dumps(outcomes) + "\n")
    if code := worst(codes):
        raise typer.Exit(code)


def worst(codes: Sequence[int]) -> int:
    """Returns the exit code for several tables: a broken guarantee's if one of them has it, else the highest."""
    return GateRefused.exit_code if GateRefused.exit_code in codes else max(codes, default=0)


def _names(hp: Hardpack, patterns: Sequence[str]) -> list[str]:
    names: list[str] = []
    for pattern in patterns:
        matching = hp.tables(pattern)
        if not matching:
            raise BadInput(f"{pattern}: no adopted table matches; `hardpack status '*.*'` lists those there are.")
        names += matching
    return list(dict.fromkeys(names))
