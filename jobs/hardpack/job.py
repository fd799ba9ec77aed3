"""What the spark-submit entry points share: arguments in, one call, a result file, an exit code."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from hardpack.api import Hardpack
from hardpack.cli import read_plan
from hardpack.errors import HardpackError
from hardpack.plan import Plan


class Failure(BaseModel):
    """What the result file holds when the job ends in an error of hardpack's own."""

    error: str
    exit_code: int


Verb = Callable[[Hardpack, Plan], BaseModel]


def run_job(verb: Verb, description: str) -> None:
    """Run a verb on the plan of one unit and write its report as JSON.

    Args:
        verb: what to do.
        description: for --help.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--catalog", default="hardpack", help="catalog name in pyiceberg's configuration")
    parser.add_argument("--plan", type=Path, required=True, help="the unit's plan, JSON")
    parser.add_argument("--result", type=Path, help="file for the report, JSON")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    for noisy in ("py4j", "great_expectations"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        report = verb(Hardpack.connect(arguments.catalog), read_plan(arguments.plan))
    except HardpackError as error:
        logging.getLogger("hardpack").error("%s", error)
        _write(arguments.result, Failure(error=str(error), exit_code=error.exit_code))
        sys.exit(error.exit_code)
    _write(arguments.result, report)


def _write(path: Path | None, result: BaseModel) -> None:
    if path:
        path.write_text(result.model_dump_json())
