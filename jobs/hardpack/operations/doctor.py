"""Examines whether catalog, storage and Spark work together: makes, cleans, reads and removes a small topic."""

from __future__ import annotations

import platform
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from hardpack.clock import moment
from hardpack.demo.topic import COLUMNS, create_topic
from hardpack.errors import BadInput
from hardpack.failures import as_hardpack_error
from hardpack.operations.installation import installed
from hardpack.table.catalog import open_table
from hardpack.table.redaction import without_secrets

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from hardpack.compaction.plan import Plan
    from hardpack.compaction.report import PassReport
    from hardpack.spark.jvm_table import JvmTable

CLOCK_MS = 60_000
"""Largest difference of two clocks, ms; above it lags and delete horizons no longer mean what they say."""
PROBES = 8
"""Number of Spark tasks that report the versions and the clock of their executor."""


class Patient(Protocol):
    """What the doctor examines: the library with its catalog open."""

    catalog: Catalog

    @property
    def spark(self) -> SparkSession:
        """The Spark session, made at first use."""

    @property
    def spark_application(self) -> str:
        """Id of the Spark application, empty while none runs."""

    def plan(self, table: str, now: int | None = None, *, force: bool = False) -> Plan:
        """Plans a table."""

    def clean(self, plan: Plan) -> PassReport:
        """Runs phase one of a plan."""

    def jvm_table(self, name: str) -> JvmTable:
        """Loads a table through Iceberg's JVM API."""


class Finding(BaseModel):
    """The result of one check."""

    model_config = ConfigDict(frozen=True)

    check: str
    well: bool
    found: str
    """What the check found or, when it failed, what is wrong and how to mend it."""


class DoctorReport(BaseModel):
    """The results of the checks, in order. After the first check that fails only the clean-up runs."""

    model_config = ConfigDict(frozen=True)

    catalog: str
    findings: tuple[Finding, ...]
    exit_code: int = 0

    @property
    def well(self) -> bool:
        """Whether every finding of the examination is good."""
        return all(f.well for f in self.findings)


class Doctor:
    """One examination of a catalog by both engines.

    Args:
        hp: the library, its catalog open.
        clock: gives the time, ms.
        namespace: where the probe's table is made; a new one, removed afterwards, when it is None.
    """

    def __init__(self, hp: Patient, clock: Callable[[], int], namespace: str | None = None) -> None:
        self.hp, self.clock = hp, clock
        self.mark = f"hardpack_doctor_{uuid.uuid4().hex[:8]}"
        self.own_namespace = not namespace
        self.namespace = namespace or self.mark
        self.name = f"{self.namespace}.{self.mark}"
        self.written_at = 0
        self.location = ""

    def examine(self) -> DoctorReport:
        """Runs the checks in order up to the first that fails, and removes what they made."""
        findings: list[Finding] = []
        code = 0
        try:
            for check, step in self._steps():
                try:
                    findings.append(Finding(check=check, well=True, found=step()))
                except Exception as error:  # whatever it is, the report says it
                    problem = as_hardpack_error(error)
                    code = problem.exit_code
                    findings.append(Finding(check=check, well=False, found=self._safe(str(problem))))
                    break
        finally:
            left = self._clean_up()
        if left:
            findings.append(Finding(check="clean-up", well=False, found=self._safe(left)))
        return DoctorReport(catalog=self._catalog.name, findings=tuple(findings), exit_code=code or (2 if left else 0))

    def _steps(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "installation", installed
        yield "catalog", self._reach
        yield "write by pyiceberg", self._write
        yield "Spark", self._spark
        yield "executors", self._executors
        yield "storage's clock", self._storage_clock
        yield "a pass by Spark", self._clean
        yield "read by pyiceberg", self._read
        yield "history", self._history

    @property
    def _catalog(self) -> Catalog:
        return self.hp.catalog

    def _safe(self, text: str) -> str:
        return without_secrets(text, self._catalog.properties)

    def _reach(self) -> str:
        namespaces = len(self._catalog.list_namespaces())
        place = self._catalog.properties.get("warehouse", "the catalog's own place")
        return f"{type(self._catalog).__name__} with {namespaces} namespaces, warehouse {self._safe(str(place))}"

    def _write(self) -> str:
        if not (self.own_namespace or self._catalog.namespace_exists(self.namespace)):
            raise BadInput(f"there is no namespace {self.namespace!r}; name one that is there, or none.")
        table = create_topic(self._catalog, self.name, {"hardpack.min.cleanable.dirty.ratio": "0"})
        self.location = table.location()
        for first in (0, 2, 4):
            table.append(_rows(first, self.clock()))
        self.written_at = self.clock()
        return f"{self.name} under {table.location()}"

    def _spark(self) -> str:
        from hardpack.spark.session import versions

        return versions(self.hp.spark)

    def _executors(self) -> str:
        def here(_: Any) -> tuple[str, str, int]:
            import platform
            import time
            from importlib.metadata import version

            return platform.python_version(), version("hardpack"), time.time_ns() // 1_000_000

        before = self.clock()
        seen = self.hp.spark.sparkContext.parallelize(range(PROBES), PROBES).map(here).collect()
        after = self.clock()
        driver = (platform.python_version(), version("hardpack"))
        for python, hardpack, now in seen:
            if (python, hardpack) != driver:
                raise BadInput(
                    f"an executor has Python {python} and hardpack {hardpack}, the driver {driver[0]} and {driver[1]}; "
                    "install the same on both."
                )
            self._compare("an executor's clock", now, before, after)
        return f"Python {driver[0]} and hardpack {driver[1]}, their clocks agree"

    def _storage_clock(self) -> str:
        made_at = self.hp.jvm_table(self.name).listed(self._table().location())
        if not made_at:
            return "this storage does not tell when files were made"
        self._compare("the storage's clock", max(made_at.values()), self.written_at, self.clock())
        return f"agrees within {CLOCK_MS // 1000} s"

    def _compare(self, whose: str, now: int, earliest: int, latest: int) -> None:
        if not earliest - CLOCK_MS <= now <= latest + CLOCK_MS:
            raise BadInput(
                f"{whose} says {moment(now)}, here it is {moment(latest)}; set both by NTP, as lags and delete "
                "horizons are counted by them."
            )

    def _clean(self) -> str:
        now = self.clock()
        report = self.hp.clean(self.hp.plan(self.name, now, force=True))
        dropped = sum(entry.superseded for entry in report.logs)
        if dropped != 1:
            raise BadInput(f"a pass over {self.name} dropped {dropped} rows, not 1; look at its log with --verbose.")
        return f"one of two rows of a key went, snapshot {report.snapshot}"

    def _read(self) -> str:
        rows = self._table().scan().to_arrow().num_rows
        if rows != ROWS - 1:
            raise BadInput(f"{rows} rows of {self.name} are read, not {ROWS - 1}; do both engines see one catalog?")
        return f"{rows} rows, as they should be"

    def _history(self) -> str:
        shown = len(self._table().snapshots())
        if shown < PASSES:
            raise BadInput(
                f"the catalog shows {shown} of the table's {PASSES} snapshots; without its history a pass is planned "
                "anew whenever somebody appends meanwhile, and verify cannot compare with the table before."
            )
        return f"{shown} snapshots"

    def _table(self) -> Table:
        return open_table(self._catalog, self.name)

    def _clean_up(self) -> str:
        """Removes the probe's table, and its namespace if it made one; returns a sentence if the table stays."""
        try:
            if self._catalog.table_exists(self.name):
                self._remove(self._table().location())
        except Exception as error:
            if not self.location:
                return ""  # no table is known to have been made, and the findings say why
            return f"{self.name} could not be removed ({as_hardpack_error(error)}); drop it and delete {self.location}."
        finally:
            if self.own_namespace:
                with suppress(Exception):  # an empty namespace does no harm
                    self._catalog.drop_namespace(self.namespace)
        return ""

    def _remove(self, location: str) -> None:
        jvm = self.hp.jvm_table(self.name) if self.hp.spark_application else None
        self._catalog.purge_table(self.name)
        if jvm:
            jvm.delete_files(jvm.listed(location))
        # Hadoop's checksum files are left, which it does not list; a # or ? in the location is part of the path
        folder = Path(re.sub("^file:(//[^/]*)?", "", location))
        if location.startswith("file:") and folder.name.startswith(self.mark):
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent.name.startswith(self.mark):
                with suppress(OSError):  # a catalog may have put more into it
                    folder.parent.rmdir()


ROWS, PASSES = 6, 4
"""Rows of the probe before its pass, and snapshots after it."""


def _rows(first: int, now: int) -> pa.Table:
    """Returns two rows of one partition; only offsets 0 and 2 share a key."""
    keys = {0: b"twice", 2: b"twice"}
    return pa.table(
        {
            "partition": pa.array([0, 0], pa.int32()),
            "offset": [first, first + 1],
            "timestamp": pa.array([now * 1000] * 2, pa.int64()).cast(COLUMNS.field("timestamp").type),
            "key": pa.array([keys.get(o, b"%d" % o) for o in (first, first + 1)], pa.binary()),
            "value": ["v", "v"],
        },
        schema=COLUMNS,
    )
