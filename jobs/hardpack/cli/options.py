"""Options that several verbs take, and how their results are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import RenderableType

from hardpack.cli.console import err, out
from hardpack.clock import time_of
from hardpack.errors import HardpackError
from hardpack.table.redaction import redacted

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
TableNames = Annotated[list[str], typer.Argument(metavar="TABLE...", help="tables, or globs such as 'db.*'")]
Now = Annotated[
    int | None,
    typer.Option(
        parser=time_of, metavar="TIME",
        help="the time to act at: ms since the epoch, or ISO as in 2026-01-31T12:00Z; UTC [default: the clock]",
    ),
]  # fmt: skip
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what the pass would do, and change nothing")]
Partitions = Annotated[list[str] | None, typer.Option("--partition", "-p", help="only this log; may be repeated")]


def show(result: Any, as_json: bool, renderer: Callable[[Any], RenderableType]) -> None:
    """Prints a result for people or for programs."""
    if as_json:
        print_json(result)
        return
    out.print(renderer(result))


def print_json(result: BaseModel | Iterable[BaseModel]) -> None:
    """Prints one result as an object, several as a list."""
    if isinstance(result, BaseModel):
        # ASCII alone, which any terminal's encoding leaves as it is
        sys.stdout.write(json.dumps(result.model_dump(mode="json", by_alias=True)) + "\n")
    else:
        sys.stdout.write(json.dumps([r.model_dump(mode="json", by_alias=True) for r in result]) + "\n")


def say(error: HardpackError) -> None:
    """Prints an error's sentence, without credentials that may be in it."""
    err.print(redacted(f"hardpack: {error}"), style="red", markup=False, highlight=False, soft_wrap=True)
