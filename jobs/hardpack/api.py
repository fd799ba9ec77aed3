"""The library: one object that holds a catalog and, once a verb needs it, a Spark session."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hardpack.adopt import adopt
from hardpack.errors import BadInput
from hardpack.home import default_home
from hardpack.lake.catalog import find_tables, open_catalog, open_table
from hardpack.lake.layout import POLICY
from hardpack.log.model import Partition
from hardpack.log.settings import Settings
from hardpack.plan import Plan, make_plan
from hardpack.report import PassReport, VerifyReport
from hardpack.status import LogStatus, table_status

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from hardpack.lake.door import IceTable


def clock() -> int:
    """The time, ms since the epoch; read at this outermost layer only."""
    return time.time_ns() // 1_000_000


class Hardpack:
    """Log compaction for the tables of one catalog.

    Example:
        >>> hp = Hardpack.connect("lake")                          # doctest: +SKIP
        >>> report = hp.clean(hp.plan("db.topic"))                 # doctest: +SKIP
    """

    def __init__(self, catalog: Catalog, spark: SparkSession | None = None, home: Path | None = None) -> None:
        self.catalog = catalog
        self.home = home or default_home()
        self._spark = spark

    @classmethod
    def connect(
        cls,
        catalog: str = "hardpack",
        properties: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        home: Path | None = None,
    ) -> Self:
        """Open a catalog as pyiceberg's configuration names it; no JVM starts before a verb needs one.

        Args:
            catalog: its name, the same in pyiceberg's configuration and in Spark.
            properties: pyiceberg's catalog properties, over the configured ones.
            spark: a session to use instead of one made when needed.
            home: folder for results and Data Docs.

        Raises:
            BadInput: the catalog is not configured or not there.
        """
        return cls(open_catalog(catalog, properties), spark, home)

    @property
    def spark(self) -> SparkSession:
        """The Spark session, made at first use."""
        if self._spark is None:
            from hardpack.spark.session import open_session

            self._spark = open_session(self.catalog)
        return self._spark

    def tables(self, pattern: str) -> list[str]:
        """Adopted tables that a glob matches; a plain name is returned whether adopted or not."""
        names = find_tables(self.catalog, pattern)
        if names == [pattern]:
            return names
        return [n for n in names if POLICY in open_table(self.catalog, n).properties]

    def status(self, pattern: str = "*.*", now: int | None = None) -> list[LogStatus]:
        """How every log of the matching tables stands; metadata only."""
        at = clock() if now is None else now
        return [s for name in self.tables(pattern) for s in table_status(open_table(self.catalog, name), at)]

    def adopt(self, table: str, settings: Mapping[str, str] | None = None, dry_run: bool = False) -> Settings:
        """Check a table and set its properties under `hardpack.`; see `hardpack.adopt.adopt`."""
        return adopt(open_table(self.catalog, table), settings or {}, dry_run)

    def plan(
        self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None, force: bool = False
    ) -> Plan:
        """What a pass would do and why; metadata only, nothing changed."""
        return make_plan(open_table(self.catalog, table), clock() if now is None else now, partitions, force)

    def clean(self, plan: Plan) -> PassReport:
        """Phase one of a plan. Applied twice it does nothing the second time (invariant 6)."""
        from hardpack.clean import phase_one

        return phase_one(self._door(plan.table), open_table(self.catalog, plan.table), plan, self.home)

    def expire_tombstones(
        self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None
    ) -> PassReport:
        """Phase two: remove the tombstones whose delete horizon has passed, whether or not the log is due."""
        from hardpack.clean import phase_two

        opened = open_table(self.catalog, table)
        plan = make_plan(opened, clock() if now is None else now, partitions, only_expire=True)
        return phase_two(self._door(table), opened, plan, self.home)

    def clean_like_kafka(
        self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None
    ) -> list[PassReport]:
        """Selection and one whole pass of the due logs, both phases at one `now`, as Kafka's cleaner does them."""
        at = clock() if now is None else now
        plan = self.plan(table, at, partitions)
        due = [p.partition for p in plan.doing("clean")]
        if not due:
            return []
        return [self.clean(plan), self.expire_tombstones(table, at, due)]

    def verify(self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None) -> VerifyReport:
        """The expectations on the published table, with their Data Docs."""
        from hardpack.verify import verify

        opened = open_table(self.catalog, table)
        return verify(self._door(table), opened, clock() if now is None else now, partitions, self.home)

    def _door(self, table: str) -> IceTable:
        from hardpack.lake.door import IceTable

        if "." not in table:
            raise BadInput(f"{table!r} names no table; write it as namespace.table.")
        open_table(self.catalog, table)
        return IceTable(self.spark, f"{self.catalog.name}.{table}")
