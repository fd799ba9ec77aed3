"""What the spark-submit entry points share: arguments in, one call, a result file, an exit code."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from hardpack.api import Hardpack
from hardpack.cli import read_plan
from hardpack.errors import BadInput, GateRefused, Unforeseen
from hardpack.failures import sentence
from hardpack.lake.catalog import redacted
from hardpack.logs import begin_logging


class Failure(BaseModel):
    """What the result file holds when the job ends in an error of hardpack's own."""

    error: str
    exit_code: int
    data_docs: tuple[str, ...] = ()
    """Pages that show what broke."""


class Errand(BaseModel):
    """What to do to a whole table at a time, ms; verbs that need no plan take it in its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    now: int
    dry_run: bool = False


def read_errand(path: Path) -> Errand:
    """An errand from a file.

    Raises:
        BadInput: it is none.
    """
    try:
        return Errand.model_validate_json(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no errand ({error}); it holds table, now and perhaps dry_run as JSON.") from None


def run_job(
    verb: Callable[[Hardpack, Any], BaseModel], description: str, read: Callable[[Path], Any] = read_plan
) -> None:
    """Run a verb on one piece of work and write its report as JSON.

    Args:
        verb: what to do.
        description: for --help.
        read: takes the work from the file given with --plan.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--catalog", default="hardpack", help="catalog name in pyiceberg's configuration")
    parser.add_argument("--plan", type=Path, required=True, help="the unit's plan, JSON")
    parser.add_argument("--result", type=Path, help="file for the report, JSON")
    arguments = parser.parse_args()
    begin_logging(logging.INFO, sys.stdout)
    for noisy in ("py4j", "great_expectations"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        hp = Hardpack.connect(arguments.catalog)
        report = verb(hp, read(arguments.plan))
    except Exception as error:
        told = sentence(error)
        text = redacted(str(told))
        logging.getLogger("hardpack").error("%s", text, exc_info=error if isinstance(told, Unforeseen) else None)
        pages = told.pages if isinstance(told, GateRefused) else ()
        _write(arguments.result, Failure(error=text, exit_code=told.exit_code, data_docs=pages))
        sys.exit(told.exit_code)
    _write(arguments.result, report, spark_application=hp.spark_application)


def _write(path: Path | None, result: BaseModel, **beside: str) -> None:
    if path:
        path.write_text(json.dumps(result.model_dump(mode="json") | beside))
