"""Plans many tables at each look; a table that has not changed is neither read nor planned again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from hardpack.compaction.plan import Plan, PlanRequest
from hardpack.errors import Unavailable
from hardpack.operations.kept_looks import KeptLook, read_looks, write_looks
from hardpack.operations.known_tables import adopted_tables, known_tables, note_adopted
from hardpack.rules.model import Partition
from hardpack.table.catalog import asked_ahead, metadata_locations, open_table
from hardpack.table.columns import is_topic
from hardpack.table.manifest_cache import ManifestCache

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from hardpack.policy import Policies


class Planner(Protocol):
    """What a look needs of the library (`hardpack.Hardpack`): it plans the tables of one catalog."""

    catalog: Catalog
    policies: Policies | None
    home: Path

    def policy_text(self, table: str) -> str:
        """Returns what the policy file says of how a table is planned, as text that changes when the policy does."""

    def plan_of(self, table: Table, request: PlanRequest) -> Plan:
        """Plans a table that is loaded already."""


@dataclass(frozen=True, slots=True)
class Look:
    """The request for a look: its tables, its time and its options. Times are ms."""

    patterns: Sequence[str]
    """Names of tables, or globs. A table given by its full name is planned whether adopted or not."""
    now: int
    partitions: Sequence[Partition] | None = None
    """Only these logs; None for all."""
    force: bool = False
    """Whether to plan whatever is cleanable, whatever its dirty ratio."""
    interval: tuple[int, int] | None = None
    """Only logs whose cleanable head has rows of this time interval, its end not included; None for any."""
    only: Collection[str] | None = None
    """Names of the tables to which an earlier look has narrowed this one; None for all that match."""

    @property
    def usual(self) -> bool:
        """Whether the look asks what every scheduled run asks, so that its plans are worth keeping for later looks."""
        return not (self.partitions or self.force or self.interval)

    @property
    def request(self) -> PlanRequest:
        """Returns the request by which each table's plan is made."""
        return PlanRequest(self.now, self.partitions, self.force, interval=self.interval, clock=self.now)

    def matches(self, table: str) -> bool:
        """Returns whether one of the globs matches a table's name."""
        return any(fnmatchcase(table, pattern) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class NotAdopted:
    """A table that cannot be read and is not known to be adopted; it does not count as a failure."""

    error: Exception


@dataclass(frozen=True, slots=True)
class OthersTable:
    """A table that belongs to another policy than the one whose tables are planned."""

    policy: str


def _of_others(hp: Planner, tables: Sequence[str], policy: str | None) -> dict[str, OthersTable]:
    """Returns the tables that belong to another policy, by name; empty when no policy is given."""
    if policy is None or not hp.policies:
        return {}
    owners = {table: hp.policies.of(table) for table in tables}
    return {table: OthersTable(owner.name) for table, owner in owners.items() if owner and owner.name != policy}


class PlanCache:
    """Plans and manifests that earlier looks at the tables of one catalog read. For one thread at a time.

    Args:
        file: where looks of earlier processes are kept; None to keep none.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.memory = ManifestCache()
        self._file = file
        self._known = read_looks(file) if file else {}
        self._kept = dict(self._known)

    def keep(self) -> None:
        """Writes the plans of this cache to its file for later processes, when they have changed."""
        if self._file and self._known != self._kept:
            write_looks(self._file, self._known)
            self._kept = dict(self._known)

    def plans(
        self,
        hp: Planner,
        look: Look,
        policy: str | None = None,
    ) -> Iterator[tuple[str, Plan | Exception | NotAdopted | OthersTable]]:
        """Yields a plan for each adopted table that a name or glob matches, or why there is none.

        A table may be unreadable, as a view is, or a table without its metadata file. It yields its error when the look
        names it (in `patterns` by its full name, or in `only`), or when it was adopted when last seen, by this process
        or another with the same home. Otherwise it yields `NotAdopted`. While no table of the look is noted as adopted,
        a table whose storage or catalog does not answer yields its error too. When no table can be read, the fault is
        not the tables', and each yields its error.

        A table is read only when its metadata is new, or when the time has come at which its plan may change. This
        takes a catalog that lists where the metadata of all tables lies. With other catalogs every table is loaded, and
        only its new manifests are read.

        Args:
            hp: the library, opened with this cache's memory.
            look: which tables to plan, when, and with which options.
            policy: name of the policy whose tables are planned; None for any. A table of another policy is not opened,
                and yields `OthersTable`.

        Raises:
            Unavailable: the catalog does not answer.
        """
        locations = metadata_locations(hp.catalog)
        patterns, now, only = look.patterns, look.now, look.only
        adopted = adopted_tables(hp.home, hp.catalog.name)
        listed = known_tables(hp.catalog, patterns, adopted)
        others = _of_others(hp, listed, policy)
        names = [name for name in listed if name not in others and (only is None or name in only)]
        seen = {name: False for name in adopted.difference(listed) if look.matches(name)}
        strangers: list[tuple[str, Exception]] = []
        stale = dict.fromkeys(name for name in names if not self._holds(hp, look, name, locations.get(name)))
        opened = asked_ahead(hp.catalog, lambda name: open_table(hp.catalog, name), stale)
        noted = any(look.matches(name) for name in adopted)
        for name in names:
            if name not in stale:
                if plan := self._known[name].plan:
                    yield name, plan.model_copy(update={"now": now, "clock": now})
                continue
            try:
                table = next(opened).result()
                seen[name] = is_topic(table)
                topic = name in patterns or seen[name]
                plan = hp.plan_of(table, look.request) if topic else None
            except Exception as error:  # one broken table must not hide the others
                self._known.pop(name, None)
                known_topic = name in patterns or only is not None or seen.get(name, name in adopted)
                # while no table of the look is noted as adopted, any may be, so an outage is an error of each
                if known_topic or (isinstance(error, Unavailable) and not noted):
                    yield name, error
                else:
                    strangers.append((name, error))
                continue
            if look.usual and name in locations:
                self._known[name] = KeptLook(table.metadata_location, hp.policy_text(name), plan)
            if plan:
                yield name, plan
        self._forget(look, listed)
        # when no table can be read, something else is wrong; tables of other policies were not tried
        all_strange = len(strangers) == len(names) and (len(names) > 1 or not others)
        for name, unread in strangers:
            yield name, unread if all_strange else NotAdopted(unread)
        # where `only` narrows a look, the earlier look has reported these tables; a table named in full is told again
        yield from ((name, other) for name, other in others.items() if only is None or name in patterns)
        note_adopted(hp.home, hp.catalog.name, seen)

    def _holds(self, hp: Planner, look: Look, name: str, location: str | None) -> bool:
        """Returns whether the kept result of an earlier look at a table still holds for this look."""
        before = self._known.get(name)
        if before is None or (before.location, before.policy) != (location, hp.policy_text(name)):
            return False
        if before.plan is None:
            return name not in look.patterns
        return look.usual and before.plan.now <= look.now < before.plan.until

    def _forget(self, look: Look, listed: Sequence[str]) -> None:
        """Forgets kept tables that match a look and that its catalog no longer lists."""
        for name in filter(look.matches, set(self._known).difference(listed)):
            del self._known[name]
