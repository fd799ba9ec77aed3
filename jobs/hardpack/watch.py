"""Looking at many tables again and again: what has not changed is neither read nor decided anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardpack.lake.catalog import find_tables, metadata_locations, open_table
from hardpack.lake.layout import is_topic
from hardpack.lake.sensing import Memory
from hardpack.log.model import Partition
from hardpack.plan import Plan

if TYPE_CHECKING:
    from hardpack.api import Hardpack


@dataclass(frozen=True, slots=True)
class _Known:
    """A table as it was when it was looked at last."""

    location: str
    policy: str
    plan: Plan | None
    """None when it is no topic."""


class Watch:
    """What earlier looks at the tables of one catalog left. For one thread at a time."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._known: dict[str, _Known] = {}

    def plans(
        self,
        hp: Hardpack,
        patterns: Sequence[str],
        now: int,
        partitions: Sequence[Partition] | None = None,
        force: bool = False,
        interval: tuple[int, int] | None = None,
    ) -> Iterator[tuple[str, Plan | Exception]]:
        """A plan for each adopted table that a name or glob matches, or why there is none.

        A table is read only when its metadata is new, or when the time has come at which a decision may change. That
        takes a catalog that tells where all tables' metadata lies; with others every table is loaded, of which only
        new manifests are read.

        Args:
            hp: the library, opened with this watch's memory.
            patterns: tables or globs; a table named plainly is planned whether adopted or not.
            now: ms since the epoch.
            partitions: only these logs; None for all.
            force: plan whatever is cleanable.
            interval: only logs whose cleanable head has rows of this time, ms.

        Raises:
            Unavailable: the catalog does not answer.
        """
        locations = metadata_locations(hp.catalog)
        usual = not (partitions or force or interval)
        for name in sorted({name for pattern in patterns for name in find_tables(hp.catalog, pattern)}):
            policy, known = hp.policy_text(name), self._known.get(name)
            if known and (known.location, known.policy) == (locations.get(name), policy):
                if known.plan is None and name not in patterns:
                    continue
                if known.plan and usual and known.plan.now <= now < known.plan.until:
                    yield name, known.plan.model_copy(update={"now": now})
                    continue
            try:
                table = open_table(hp.catalog, name)
                topic = name in patterns or is_topic(table)
                plan = hp.plan_of(table, now, partitions, force, interval=interval) if topic else None
            except Exception as error:  # one broken table must not hide the others
                self._known.pop(name, None)
                yield name, error
                continue
            if usual:
                self._known[name] = _Known(table.metadata_location, policy, plan)
            if plan:
                yield name, plan
