"""What the spark-submit entry points share: arguments in, a call for each plan, a result file, an exit code."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict

from hardpack.api import Hardpack
from hardpack.cli.arguments import read_plan
from hardpack.cli.log_output import begin_logging
from hardpack.cli.task_process import end_with
from hardpack.compaction.plan import Plan
from hardpack.errors import BadInput, ExpectationFailed, GateRefused, Unavailable, Unforeseen
from hardpack.failures import of_table, sentence
from hardpack.table.redaction import redacted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_AT_ONCE = 8
"""Tables that one driver works on side by side; each may hold some hundred megabytes of small files."""


class Failure(BaseModel):
    """What stands in the result file in place of a report when an error ended the work on a plan."""

    table: str = ""
    error: str
    exit_code: int
    data_docs: tuple[str, ...] = ()
    """Pages that show what broke."""


class TableRequest(BaseModel):
    """What to do to a whole table at a time, ms; verbs that need no plan take it in its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    now: int
    dry_run: bool = False

    @property
    def partitions(self) -> None:
        """All logs."""


def read_table_request(path: Path) -> TableRequest:
    """Returns an errand from a file.

    Raises:
        BadInput: it is none.
    """
    try:
        return TableRequest.model_validate_json(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no errand ({error}); it holds table, now and perhaps dry_run as JSON.") from None


def read_plan_or_table(path: Path) -> Plan | TableRequest:
    """Returns what a file holds: a plan, or a table and a time.

    Raises:
        BadInput: it holds neither.
    """
    try:
        return TableRequest.model_validate_json(path.read_text())
    except (OSError, ValueError):
        return read_plan(path)


class Libraries:
    """The library for each thread that works, all over one Spark session."""

    def __init__(self, catalog: str) -> None:
        """Opens nothing yet.

        Args:
            catalog: its name in pyiceberg's configuration.
        """
        self._catalog, self._of_thread, self._opening = catalog, threading.local(), threading.Lock()
        self._spark: SparkSession | None = None

    def mine(self) -> Hardpack:
        """Returns this thread's, which is opened at first use.

        Raises:
            HardpackError: the catalog or Spark does not answer.
        """
        if not hasattr(self._of_thread, "hp"):
            with self._opening:
                hp = Hardpack.connect(self._catalog, spark=self._spark)
                self._spark = hp.spark
            self._of_thread.hp = hp
        return cast("Hardpack", self._of_thread.hp)

    def at_once(self, pieces: int) -> int:
        """Returns how many pieces of work are done side by side: one for each of Spark's slots, and no more than help.

        Args:
            pieces: how many there are.
        """
        if pieces == 1:
            return 1
        try:
            slots: int = self.mine().spark.sparkContext.defaultParallelism
        except Exception:
            # the work on the first piece tells why nothing can be opened
            return 1
        return min(pieces, slots, MOST_AT_ONCE)


def run_job(
    verb: Callable[[Hardpack, Any], BaseModel], description: str, read: Callable[[Path], Any] = read_plan
) -> None:
    """Run a verb on pieces of work in one Spark application, some side by side, and write its reports as JSON.

    The result is a list with a report or failure for each piece, in their order, written anew after each. An error ends
    the work on its own piece alone, but when a service is away or nobody foresaw it, those behind it are left to
    another application. The exit code is that of the first error.

    Args:
        verb: what to do.
        description: for --help.
        read: takes a piece of work from a file given with --plan.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--catalog", default="hardpack", help="catalog name in pyiceberg's configuration")
    parser.add_argument("--plan", type=Path, nargs="+", required=True, help="a unit's plans, JSON, a file for each")
    parser.add_argument("--result", type=Path, help="file for the reports, JSON")
    parser.add_argument("--task", type=int, help="number of the process with which the driver ends")
    arguments = parser.parse_args()
    begin_logging(logging.INFO, sys.stdout)
    if arguments.task:
        end_with(arguments.task)
    for noisy in ("py4j", "great_expectations"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    libraries = Libraries(arguments.catalog)
    done: list[dict[str, Any]] = []
    with ThreadPoolExecutor(libraries.at_once(len(arguments.plan))) as pool:
        for one in pool.map(lambda path: _done(verb, libraries.mine, read, path), arguments.plan):
            done.append(one)
            if arguments.result:
                # whoever reads it when this dies finds it whole
                written = arguments.result.with_suffix(".new")
                written.write_text(json.dumps(done))
                written.replace(arguments.result)
            if one.get("exit_code") in (Unforeseen.exit_code, Unavailable.exit_code):
                # what was begun comes to its end, and its plan is then found done
                pool.shutdown(cancel_futures=True)
                break
    sys.exit(next((one["exit_code"] for one in done if "error" in one), 0))


def _done(
    verb: Callable[[Hardpack, Any], BaseModel], connect: Callable[[], Hardpack], read: Callable[[Path], Any], path: Path
) -> dict[str, Any]:
    table = ""
    try:
        work = read(path)
        table = work.table
        hp = connect()
        report = verb(hp, work)
    except Exception as error:
        told = sentence(error)
        text = redacted(of_table(table, error) if table else str(told))
        logging.getLogger("hardpack").error("%s", text, exc_info=error if isinstance(told, Unforeseen) else None)
        if isinstance(told, Unforeseen):
            # reports are kept and copied, and what others say may quote a row
            text = f"{table}: {type(error).__name__}, which nobody foresaw; see the task's log, and report it."
        pages = told.pages if isinstance(told, GateRefused | ExpectationFailed) else ()
        return Failure(table=table, error=text, exit_code=told.exit_code, data_docs=pages).model_dump(mode="json")
    return report.model_dump(mode="json") | {"spark_application": hp.spark_application}
