"""What the pages show: every table in a few numbers, kept up to date in the background of Airflow's server."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack import Hardpack
    from hardpack.operations.status import LogStatus
    from hardpack.operations.summary import Moment, PassTotals, TableSummary
    from hardpack.policy import Policy
    from hardpack.rules.settings import Settings
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = logging.getLogger(__name__)
FRESH_SECONDS = 30
"""Age up to which the overview is shown without looking at the catalog again."""
STALE_SECONDS = 600
"""Age at which a table that did not change is read again, as a compaction lag may have passed since."""
PATIENCE_SECONDS = 3
"""How long a page waits for a look at the tables before it shows what there is."""


@dataclass(frozen=True)
class TablePage:
    """What the page of one table shows."""

    summary: TableSummary
    logs: list[LogStatus]
    moments: list[Moment]
    settings: Settings
    origins: dict[str, str]
    policy: Policy | None
    has_policy_file: bool


@dataclass
class _Seen:
    location: str
    at: float
    summary: TableSummary | None
    """None for a table that is not known to be a topic."""
    read: bool = True
    """Whether the table could be read."""


def summaries_of(caches: Iterable[TableCache]) -> list[TableSummary]:
    """Begins the looks that are due and waits for them a while; returns the summaries of all topics read so far."""
    all_caches = list(caches)
    until = time.monotonic() + PATIENCE_SECONDS
    for looking in [cache.begin_look() for cache in all_caches]:
        if looking:
            looking.join(max(0.0, until - time.monotonic()))
    return [summary for cache in all_caches for summary in cache.summaries]


@dataclass
class TableCache:
    """Summaries of a catalog's tables; it looks at all of them anew when a page asks and the last look is old."""

    catalog: str
    seen: dict[str, _Seen] = field(default_factory=dict)
    tables: int = 0
    """How many tables the last look found, topics or not; some of them may not have been read yet."""
    problem: str = ""
    """Why the last look failed."""
    looked: float = 0.0
    """When the last look that did not fail ended, by `time.time`."""
    tried: float = 0.0
    """When the last look ended, whether or not it failed."""

    def __post_init__(self) -> None:
        from hardpack.table.manifest_cache import ManifestCache

        self._memory = ManifestCache(most_files=500_000)
        self._busy, self._opening = threading.Lock(), threading.Lock()
        self._reading: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._passes: dict[str, dict[int, PassTotals]] = defaultdict(dict)
        self._catalog: Catalog | None = None

    def _open(self) -> Hardpack:
        """Returns the library over the catalog that all pages share, with the policies as they are now."""
        from hardpack import Hardpack
        from hardpack.policy.file import policies_in_force
        from hardpack.table.catalog import open_catalog

        # first, as it is unknown which catalogs there are while the policy file cannot be read; its error says so
        policies = policies_in_force()
        with self._opening:
            self._catalog = self._catalog or open_catalog(self.catalog)
        return Hardpack(self._catalog, memory=self._memory, policies=policies)

    def begin_look(self) -> threading.Thread | None:
        """Begins a look when the last one is old and none goes on; returns its thread, or None when it begins none."""
        if time.time() - self.tried <= FRESH_SECONDS or not self._busy.acquire(blocking=False):
            return None
        looking = threading.Thread(target=self._look, daemon=True, name="hardpack-lookout")
        looking.start()
        return looking

    @property
    def summaries(self) -> list[TableSummary]:
        """The summaries of all topics that were read so far."""
        return [seen.summary for seen in list(self.seen.values()) if seen.summary]

    @property
    def looking(self) -> bool:
        """Whether a look goes on."""
        return self._busy.locked()

    def _look(self) -> None:
        try:
            self._look_at_all()
            self.problem, self.looked = "", time.time()
        except Exception as error:  # the page says it; the next request tries again
            from hardpack.failures import as_hardpack_error

            self.problem = f"{as_hardpack_error(error)}"
            log.warning("the tables could not be looked at: %s", self.problem)
        finally:
            self.tried = time.time()
            self._busy.release()

    def _look_at_all(self) -> None:
        from hardpack.errors import Unreadable
        from hardpack.failures import of_table
        from hardpack.operations.known_tables import adopted_tables, known_tables
        from hardpack.operations.summary import TableSummary
        from hardpack.table.catalog import asked_ahead, metadata_locations, open_table

        hp = self._open()
        locations = metadata_locations(hp.catalog)
        adopted = adopted_tables(hp.home, hp.catalog.name)
        names = known_tables(hp.catalog, ["*.*"], adopted)
        self.tables = len(names)
        for gone in set(self.seen) - set(names):
            del self.seen[gone]
            self._passes.pop(gone, None)
        stale = [name for name in names if not self._is_fresh(name, locations.get(name))]
        strangers: dict[str, TableSummary] = {}
        for name, opened in zip(
            stale, asked_ahead(hp.catalog, lambda name: open_table(hp.catalog, name), stale), strict=True
        ):
            location, table = "", None
            try:
                table = opened.result()
                location = table.metadata_location
                if self._is_fresh(name, location):  # a REST catalog tells the location of no table before it is loaded
                    continue
                self.seen[name] = _Seen(location, time.time(), self._summary(hp, table))
            except Exception as error:  # one broken table must not hide the others
                failed = TableSummary(table=name, catalog=self.catalog, error=of_table(name, error))
                before = self.seen.get(name)
                known = table is not None or name in adopted or (before and before.summary)
                # when no list of adopted tables was kept, each table may be adopted
                if isinstance(error, Unreadable) and adopted and not known:
                    strangers[name] = failed
                    self.seen[name] = _Seen(locations.get(name) or "", time.time(), None, read=False)
                else:
                    self.seen[name] = _Seen(location, time.time(), failed, read=False)
        if not any(seen.read for seen in self.seen.values()):
            # when no table can be read, the fault is not the tables', and pages show it at all of them
            for name, failed in strangers.items():
                self.seen[name] = _Seen("", time.time(), failed, read=False)

    def _is_fresh(self, name: str, location: str | None) -> bool:
        seen = self.seen.get(name)
        if not seen or seen.location != location:
            return False
        # a table that is no topic stays none while its metadata is the same
        return (seen.read and not seen.summary) or time.time() - seen.at < STALE_SECONDS

    def _summary(self, hp: Hardpack, table: Table) -> TableSummary | None:
        from hardpack.table.columns import is_topic

        return self._read(hp, table)[0] if is_topic(table) else None

    def _read(self, hp: Hardpack, table: Table) -> tuple[TableSummary, list[LogStatus], list[Moment]]:
        from hardpack.clock import clock
        from hardpack.operations.summary import history, summarize

        # each table has its own lock, so that one whose storage hangs does not hold up the pages of others
        name = ".".join(table.name())
        with self._reading[name]:
            logs = hp.status_of(table, clock())
            moments = history(table, self._passes[name])
        return summarize(table, logs, moments).model_copy(update={"catalog": self.catalog}), logs, moments

    def table(self, name: str) -> TablePage:
        """Returns one table, read now.

        Raises:
            HardpackError: the table is not there, or is no topic.
        """
        from hardpack.rules.settings import origins
        from hardpack.table.catalog import open_table
        from hardpack.table.columns import settings_of

        hp = self._open()
        table = open_table(hp.catalog, name)
        summary, logs, moments = self._read(hp, table)
        policy = hp.policies.of(name) if hp.policies else None
        given: Any = hp.policies.settings(name) if hp.policies else {}
        return TablePage(
            summary, logs, moments, settings_of(table, given), dict(origins(table.properties, given)), policy,
            has_policy_file=bool(hp.policies),
        )  # fmt: skip
