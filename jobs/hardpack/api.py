"""The library: one object that holds a catalog and, once a verb needs it, a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hardpack.clock import before_the_end, clock, not_ahead
from hardpack.compaction.plan import Plan, PlanRequest
from hardpack.compaction.plan_check import clean_or_replan
from hardpack.compaction.planning import make_plan
from hardpack.compaction.report import KeyReport, MaintenanceReport, PassReport, SplitReport, VerifyReport
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.home import default_home
from hardpack.operations.adopt import adopt, writer_of
from hardpack.operations.create import create
from hardpack.operations.follow_readers import Followed, follow_readers
from hardpack.operations.known_tables import find_topics
from hardpack.operations.pause import pause, resume
from hardpack.operations.readers import Positions, remove_reader, set_reader
from hardpack.operations.verbs import StatusVerbs
from hardpack.operations.writers import Writer
from hardpack.policy import UNIT_BYTES, Policies
from hardpack.policy.file import policies_in_force
from hardpack.reading.verbs import ReadVerbs
from hardpack.rules.model import LogState, Partition
from hardpack.rules.reader_source import ReaderSource
from hardpack.rules.settings import Settings
from hardpack.table.catalog import (
    allowed_places,
    check_metadata_log,
    open_catalog,
    open_table,
    table_places,
)
from hardpack.table.columns import check_adopted, table_name
from hardpack.table.guard import guarded
from hardpack.table.history import data_bytes
from hardpack.table.manifest_cache import ManifestCache

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from hardpack.operations.doctor import DoctorReport
    from hardpack.spark.jvm_table import JvmTable


class Hardpack(StatusVerbs, ReadVerbs):
    """Log compaction for the tables of one catalog.

    Examples:
        >>> hp = Hardpack.connect("lake")                          # doctest: +SKIP
        >>> report = hp.clean(hp.plan("db.topic"))                 # doctest: +SKIP
    """

    def __init__(
        self,
        catalog: Catalog,
        spark: SparkSession | None = None,
        home: Path | None = None,
        memory: ManifestCache | None = None,
        policies: Policies | None = None,
        clock: Callable[[], int] = clock,
    ) -> None:
        self.catalog, self.clock = guarded(catalog), clock
        self._memory = memory or ManifestCache()
        in_force = policies or policies_in_force()
        self.policies = in_force.in_catalog(catalog.name) if in_force else None
        self.home = home or default_home()
        self._spark, self._fits = spark, False
        self.short_life = False
        """Whether the process ends with one verb: Java then starts faster and compiles less."""

    @classmethod
    def connect(
        cls,
        catalog: str = "hardpack",
        properties: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        home: Path | None = None,
        memory: ManifestCache | None = None,
        policies: Policies | None = None,
    ) -> Self:
        """Open a catalog as pyiceberg's configuration names it; no JVM starts before a verb needs one.

        Args:
            catalog: its name, the same in pyiceberg's configuration and in Spark.
            properties: pyiceberg's catalog properties, over the configured ones.
            spark: a session to use instead of one made when needed.
            home: folder for results and Data Docs.
            memory: what earlier looks at the tables' metadata left, so that only new manifests are read.
            policies: instead of those of the policy file; those of other catalogs count for nothing.

        Raises:
            BadInput: the catalog is not configured or not there, or the policy file is wrong.
        """
        return cls(open_catalog(catalog, properties), spark, home, memory, policies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalog's connections; a Spark session stays, as others may use it. Also at the end of a `with`."""
        self.catalog.close()

    def _policy(self, table: str) -> Mapping[str, str]:
        """Returns what the table's policy sets."""
        return self.policies.settings(table) if self.policies else {}

    @property
    def spark(self) -> SparkSession:
        """The Spark session, made at first use.

        Raises:
            BadInput: one that was given runs other versions than hardpack was tested with.
        """
        if self._spark is not None and not self._fits:
            from hardpack.spark.session import fit

            fit(self._spark)
            self._fits = True
        if self._spark is None:
            from hardpack.compaction.gate import load_suite_meanwhile
            from hardpack.spark.session import open_session

            load_suite_meanwhile()
            self._spark, self._fits = open_session(self.catalog, short_life=self.short_life), True
        return self._spark

    @property
    def spark_application(self) -> str:
        """Id of the Spark application, empty while none runs."""
        return str(self._spark.sparkContext.applicationId) if self._spark else ""

    def tables(self, *patterns: str) -> list[str]:
        """Adopted tables that globs match; a plain name is returned whether adopted or not.

        A table whose catalog or storage does not answer is among them, and so is one that cannot be read or listed any
        more but was adopted when it was opened last: so its error is seen where it is used. A view is not, unless all
        are such.

        Args:
            patterns: names or globs.
        """
        return find_topics(self.catalog, patterns, self.home)

    def create(self, table: str, settings: Mapping[str, str] | None = None) -> Settings:
        """Make an empty table for a topic, and adopt it; see `hardpack.operations.create.create`."""
        return create(self.catalog, table, settings or {}, lambda: self.adopt(table), self._policy(table))

    def adopt(
        self,
        table: str,
        settings: Mapping[str, str] | None = None,
        dry_run: bool = False,
        writer: str | None = None,
    ) -> Settings:
        """Check a table and set its properties under `hardpack.`; see `hardpack.operations.adopt.adopt`."""
        return adopt(self.session(table), settings or {}, dry_run, writer)

    def writer_of(
        self, table: str, settings: Mapping[str, str] | None = None, writer: str | None = None
    ) -> Writer | None:
        """Returns the sink that wrote a table, and how adopting maps it; see `hardpack.operations.adopt.writer_of`."""
        return writer_of(self.session(table), settings or {}, writer)

    def plan(
        self,
        table: str,
        now: int | None = None,
        partitions: Sequence[Partition] | None = None,
        force: bool = False,
        last_stable: Mapping[str, int] | None = None,
        interval: tuple[int, int] | None = None,
    ) -> Plan:
        """Returns what a pass would do and why.

        Metadata only, nothing changed. See `hardpack.compaction.planning.make_plan`.

        Delete horizons count from the commit: when a plan of the clock's time is applied later, from as much later. A
        `now` that is given says what time it is, and time then stands still until the plan is applied.
        """
        at = self._now(now)
        clock_time = self.clock() if now is None or self.clock is not clock else None
        request = PlanRequest(at, partitions, force, last_stable, interval, clock_time)
        return self.plan_of(open_table(self.catalog, table), request)

    def _now(self, now: int | None) -> int:
        """Returns the time that was given, else the clock's, ms."""
        # at Kafka's Long.MAX even a segment that never closes would count as closed
        return self.clock() if now is None else before_the_end(now)

    def plan_of(self, table: Table, request: PlanRequest) -> Plan:
        """Plans a table that is loaded already, in the order and in commits of the size that its policy has.

        The clock of a caller who looks at a time in the past says that time.
        """
        policy = self.policies.of(table_name(table)) if self.policies else None
        order, unit_bytes = (policy.order, policy.unit_bytes) if policy else ("filthiest", UNIT_BYTES)
        return make_plan(self.session(table), replace(request, order=order)).in_commits_of(unit_bytes)

    def policy_text(self, table: str) -> str:
        """Returns all that the policy file says of how a table is planned, as text that differs when it does."""
        policy = self.policies.of(table) if self.policies else None
        return policy.of_planning if policy else ""

    def clean(self, plan: Plan, dry_run: bool = False) -> PassReport:
        """Runs phase one of a plan, after a split; applied twice it does nothing the second time (invariant 6).

        Args:
            plan: what to do.
            dry_run: report what the pass would do, and change nothing.

        Raises:
            BadInput: the plan's time lies in the future, or the table was taken out since.
            GateRefused: a guarantee would not hold; it was not published and the logs are marked uncleanable.
            Conflict: the table has moved on, plan again.
        """
        from hardpack.compaction.phase_one import clean
        from hardpack.compaction.split import clean_after_split

        if not plan.force:
            not_ahead(plan.now, self.clock())
        session = self.session(plan.table)
        # a plan brings settings of its own, so that no later step asks whether the table is adopted
        check_adopted(session.table)
        if plan.split and not dry_run:
            return clean_after_split(lambda: self.session(plan.table), plan, plan.split)
        return clean(session, plan, dry_run)

    def set_reader(self, table: str | Table, name: str, positions: Positions, now: int | None = None) -> list[str]:
        """Records how far a named reader is; see `hardpack.operations.readers.set_reader`."""
        return set_reader(self.session(table), name, positions, self._now(now))

    def follow_readers(self, sources: Sequence[ReaderSource], now: int | None = None) -> Iterator[Followed]:
        """Asks named readers how far they are; see `hardpack.operations.follow_readers.follow_readers`."""
        return follow_readers(self.session, sources, self._now(now))

    def remove_reader(self, table: str, name: str) -> None:
        """Forgets a named reader, so that no tombstone waits for it."""
        remove_reader(self.session(table), name)

    def split(self, table: str, now: int | None = None, dry_run: bool = False) -> SplitReport:
        """Takes files apart that may hold rows of several logs, until there are none; passes begin with it.

        Raises:
            Conflict: a writer adds such files faster than they can be split.
        """
        from hardpack.compaction.split import split_first

        return split_first(lambda: self.session(table), self._now(now), dry_run)[0]

    def _apart(self, table: str, now: int) -> TableSession:
        from hardpack.compaction.split import split_first

        return split_first(lambda: self.session(table), now)[1]

    def clean_or_replan(self, plan: Plan) -> PassReport:
        """Runs phase one of a plan; when others changed the table meanwhile, its logs are planned anew."""

        def replan(old: Plan, last_stable: Mapping[str, int]) -> Plan:
            request = PlanRequest(old.now, force=old.force, last_stable=last_stable, clock=old.clock)
            return self.plan_of(open_table(self.catalog, old.table), request)

        return clean_or_replan(plan, self.clean, replan)

    def apply_retention(
        self,
        table: str,
        now: int | None = None,
        partitions: Sequence[Partition] | None = None,
        dry_run: bool = False,
    ) -> PassReport:
        """Deletes whole segments past `retention.ms` or `retention.bytes`, where the policy names `delete`."""
        from hardpack.compaction.retention import apply_retention

        at = not_ahead(self._now(now), self.clock())
        session = self.session(table) if dry_run else self._apart(table, at)
        return apply_retention(session, at, partitions, dry_run)

    def maintain(self, table: str, now: int | None = None, dry_run: bool = False) -> MaintenanceReport:
        """Free what the table no longer needs: old snapshots, orphan files, manifests."""
        from hardpack.operations.maintenance import maintain

        at = not_ahead(self._now(now), self.clock())
        others = {name: place for name, place in table_places(self.catalog).items() if name != table}
        session = self.session(table)
        if session.settings.deletes and not dry_run:
            # retention works by log, so that mixed files are split first
            session = self._apart(table, at)
        return maintain(session, at, others, allowed_places(self.catalog, table), dry_run)

    def doctor(self, namespace: str | None = None) -> DoctorReport:
        """Try catalog, storage and Spark on a small topic of its own."""
        from hardpack.operations.doctor import Doctor

        return Doctor(self, self.clock, namespace).examine()

    def pause(self, table: str, partitions: Sequence[Partition] | None = None) -> dict[str, LogState]:
        """Keep logs from being cleaned until they are resumed; see `hardpack.operations.pause.pause`."""
        return pause(self.session(table), partitions)

    def resume(
        self, table: str, partitions: Sequence[Partition] | None = None, trust_late_rows: bool = False
    ) -> dict[str, LogState]:
        """Undo a pause and clear what made logs uncleanable; see `hardpack.operations.pause.resume`."""
        return resume(self.session(table), partitions, self.clock(), trust_late_rows)

    def expire_tombstones(
        self,
        table: str,
        now: int | None = None,
        partitions: Sequence[Partition] | None = None,
        dry_run: bool = False,
    ) -> PassReport:
        """Runs phase two: removes the tombstones whose delete horizon has passed, whether or not the log is due."""
        from hardpack.compaction.phase_two import expire_tombstones

        at = not_ahead(self._now(now), self.clock())
        session = self.session(table) if dry_run else self._apart(table, at)
        return expire_tombstones(session, make_plan(session, PlanRequest(at, partitions)), dry_run)

    def clean_like_kafka(
        self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None
    ) -> list[PassReport]:
        """Selection and one whole pass of the due logs, both phases at one `now`, as Kafka's cleaner does them."""
        at = self._now(now)
        self._apart(table, at)
        plan = self.plan(table, at, partitions)
        if not plan.doing("clean"):
            return []
        return [self.clean(plan), self.expire_after(plan)]

    def expire_after(self, plan: Plan) -> PassReport:
        """Runs phase two of the logs that a plan's phase one cleaned, and of those planned for expiry alone."""
        from hardpack.compaction.phase_two import expire_planned

        not_ahead(plan.now, self.clock())
        return expire_planned(self._apart(plan.table, plan.now), plan)

    def verify(
        self, table: str, now: int | None = None, partitions: Sequence[Partition] | None = None, sample: bool = False
    ) -> VerifyReport:
        """Returns the expectations on the published table, with their Data Docs; see `hardpack.compaction.verify`."""
        from hardpack.compaction.verify import verify

        return verify(self.session(table), self._now(now), partitions, sample)

    def explain(
        self, table: str, key: bytes, now: int | None = None, partitions: Sequence[Partition] | None = None
    ) -> KeyReport:
        """Returns what becomes of the rows of a key, and why; see `hardpack.operations.explain.explain`."""
        from hardpack.operations.explain import explain

        return explain(self.session(table), key, self._now(now), partitions)

    def session(self, table: str | Table) -> TableSession:
        """Opens a table for one verb; it is loaded once.

        Args:
            table: its name, or the table when it is loaded already.

        Raises:
            BadInput: there is no such table.
        """
        if isinstance(table, str):
            table = open_table(self.catalog, table)
        name = table_name(table)
        return TableSession(
            table, lambda: self.jvm_table(name, table), self._policy(name), self.home, self.clock, self._memory
        )

    def jvm_table(self, name: str, table: Table | None = None) -> JvmTable:
        """Loads a table through Iceberg's JVM API.

        Args:
            name: `namespace.table`.
            table: the table when it is loaded already.

        Raises:
            BadInput: there is no such table, or a commit to it would delete files of others.
        """
        from hardpack.spark.jvm_table import JvmTable
        from hardpack.spark.shuffles import fit_shuffles

        if "." not in name:
            raise BadInput(f"{name!r} names no table; write it as namespace.table.")
        loaded = open_table(self.catalog, name) if table is None else table
        check_metadata_log(loaded)
        fit_shuffles(self.spark, data_bytes(loaded))
        return JvmTable(self.spark, f"{self.catalog.name}.{name}")
