"""What the spark-submit entry points share: arguments in, a call for each plan, a result file, an exit code."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict

from hardpack.api import Hardpack
from hardpack.cli.arguments import read_plan
from hardpack.cli.log_output import begin_logging
from hardpack.cli.task_process import end_with
from hardpack.compaction.plan import Plan
from hardpack.compaction.report import PassReport
from hardpack.errors import BadInput, ExpectationFailed, GateRefused, Unavailable, Unforeseen
from hardpack.failures import as_hardpack_error, of_table
from hardpack.home import replace_file
from hardpack.table.redaction import redacted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_AT_ONCE = 4
"""Tables that one driver works on side by side; each may hold some hundred megabytes of small files."""
STOPS = (Unforeseen.exit_code, Unavailable.exit_code)
"""Exit codes of errors that may be the application's own, or a service's, rather than the table's."""


class Failure(BaseModel):
    """What stands in the result file in place of a report when an error ended the work on a plan."""

    table: str = ""
    error: str
    exit_code: int
    data_docs: tuple[str, ...] = ()
    """Pages that show what broke."""


class TableRequest(BaseModel):
    """A request to work on a table at a time, ms. Verbs that need no plan take it in place of a plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    now: int
    dry_run: bool = False
    partitions: Sequence[str] | None = None
    """Only these logs; None for all."""


def read_table_request(path: Path) -> TableRequest:
    """Reads a request to work on one table from a file.

    Raises:
        BadInput: the file holds no request.
    """
    try:
        return TableRequest.model_validate_json(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} is no request ({error}); it holds table, now and perhaps dry_run and partitions as JSON."
        ) from None


def read_plan_or_table(path: Path) -> Plan | TableRequest:
    """Returns what a file holds: a plan, or a table and a time.

    Raises:
        BadInput: it holds neither.
    """
    try:
        return TableRequest.model_validate_json(path.read_text())
    except (OSError, ValueError):
        return read_plan(path)


def expire(hp: Hardpack, work: Plan | TableRequest) -> PassReport:
    """Runs phase two: of a plan's logs after its phase one, or of all that is due where a table is given."""
    if isinstance(work, Plan):
        return hp.expire_after(work)
    return hp.expire_tombstones(work.table, work.now, work.partitions, work.dry_run)


class Libraries:
    """A `Hardpack` for each thread that works; all share one Spark session.

    Args:
        catalog: its name in pyiceberg's configuration.
    """

    def __init__(self, catalog: str) -> None:
        self._catalog, self._of_thread, self._opening = catalog, threading.local(), threading.Lock()
        self._spark: SparkSession | None = None
        self._error: Exception | None = None

    def mine(self) -> Hardpack:
        """Returns the `Hardpack` of this thread, which is opened at first use.

        Raises:
            HardpackError: the catalog or Spark does not answer; neither is then asked again.
        """
        if not hasattr(self._of_thread, "hp"):
            with self._opening:
                if self._error:
                    raise self._error
                try:
                    hp = Hardpack.connect(self._catalog, spark=self._spark)
                    self._spark = hp.spark
                except Exception as error:
                    self._error = error
                    raise
            self._of_thread.hp = hp
        return cast("Hardpack", self._of_thread.hp)

    def at_once(self, pieces: int) -> int:
        """Returns how many pieces of work to do side by side, at most `MOST_AT_ONCE` and one for each of Spark's slots.

        Args:
            pieces: how many there are.
        """
        # Spark starts here, in the main thread, where pyspark sees to it that Ctrl-C ends Spark's jobs
        with contextlib.suppress(Exception):
            slots: int = self.mine().spark.sparkContext.defaultParallelism
            return max(1, min(pieces, slots, MOST_AT_ONCE))
        # one at a time: the work on the first piece tells why nothing can be opened
        return 1


class Results:
    """The report or failure of each piece of work, by its place, in a file that a reader always finds whole.

    Args:
        pieces: how many there are.
        file: is written anew after each piece; None for no file.
    """

    def __init__(self, pieces: int, file: Path | None) -> None:
        self._found: list[dict[str, Any] | None] = [None] * pieces
        self._file, self._writing = file, threading.Lock()

    def put(self, place: int, one: dict[str, Any]) -> None:
        """Takes the report or failure of a piece.

        Args:
            place: of the piece.
            one: a report or failure.
        """
        with self._writing:
            self._found[place] = one
            if self._file:
                last = max(n for n, result in enumerate(self._found) if result)
                replace_file(self._file, json.dumps(self._found[: last + 1]))

    def exit_code(self) -> int:
        """Returns the exit code of the first error, 0 where there is none."""
        return next((int(one["exit_code"]) for one in self._found if one and "error" in one), 0)


def run_job(
    verb: Callable[[Hardpack, Any], BaseModel], description: str, read: Callable[[Path], Any] = read_plan
) -> None:
    """Runs a verb on pieces of work in one Spark application, some side by side, and writes its reports as JSON.

    The result is a list with a report or failure for each piece, in their order, written anew after each. Null stands
    in the place of a piece that has not ended. An error ends the work on its own piece alone; but when a service is
    away, or nobody foresaw the error, pieces not yet begun are left to another application. The exit code is that of
    the first error.

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
    parser.add_argument("--one-by-one", action="store_true", help="work on no two plans at the same time")
    arguments = parser.parse_args()
    begin_logging(logging.INFO, sys.stdout)
    if arguments.task:
        end_with(arguments.task)
    for noisy in ("py4j", "great_expectations"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    plans: list[Path] = arguments.plan
    libraries, results, stop = Libraries(arguments.catalog), Results(len(plans), arguments.result), threading.Event()

    def work(place: int) -> None:
        if not stop.is_set():
            one = _done(verb, libraries.mine, read, plans[place])
            results.put(place, one)
            if one.get("exit_code") in STOPS:
                stop.set()

    at_once = libraries.at_once(1 if arguments.one_by_one else len(plans))
    if at_once == 1:
        for place in range(len(plans)):
            work(place)
    else:
        with ThreadPoolExecutor(at_once) as pool:
            try:
                list(pool.map(work, range(len(plans))))
            finally:
                # where this thread is interrupted, the other threads begin nothing more
                stop.set()
    sys.exit(results.exit_code())


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
        failure = as_hardpack_error(error)
        text = redacted(of_table(table, error) if table else str(failure))
        logging.getLogger("hardpack").error("%s", text, exc_info=error if isinstance(failure, Unforeseen) else None)
        if isinstance(failure, Unforeseen):
            # reports are kept and copied, and the text of an error that is not hardpack's may quote a row
            text = f"{table}: {type(error).__name__}, which nobody foresaw; see the task's log, and report it."
        pages = failure.pages if isinstance(failure, GateRefused | ExpectationFailed) else ()
        return Failure(table=table, error=text, exit_code=failure.exit_code, data_docs=pages).model_dump(mode="json")
    return report.model_dump(mode="json") | {"spark_application": hp.spark_application}
