"""The work on many tables of one policy: what is due, in which order, and which of it shares a Spark application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hardpack.compaction.plan import Plan
from hardpack.compaction.report import PlannedLog
from hardpack.errors import Unavailable
from hardpack.failures import as_hardpack_error, of_table
from hardpack.operations.plan_tables import Look, NotAdopted, OthersTable, PlanCache, Planner
from hardpack.policy import Policy

MOST_REASONS = 20
"""Most logs of one table for which a look gives the reason."""
SHARED_BYTES, SHARED_PLANS = 1024**3, 50
"""Most bytes and plans of small tables in one unit: Spark takes as long to start as to clean a gigabyte."""

Unit = list[Plan]
"""The plans that one Spark application cleans."""


@dataclass
class Work:
    """The result of a look at the tables of a policy."""

    plans: list[Plan] = field(default_factory=list)
    """A plan for each table that could be read, whether or not there is anything to do."""
    refused: list[str] = field(default_factory=list)
    """Tables of the policy that could not be read or planned."""
    errors: list[str] = field(default_factory=list)
    """A sentence for each refused table, and for each table of another policy that the look asks for by its name."""
    lasting: bool = False
    """Whether one of the errors stays until somebody mends a table or asks for another."""
    reasons: list[str] = field(default_factory=list)
    """Why logs are cleaned or not, and which tables were passed over."""

    @property
    def held(self) -> list[PlannedLog]:
        """Logs that no pass will clean before somebody does something about them, and why."""
        return [
            PlannedLog(table=plan.table, partition=log.partition, reason=log.reason)
            for plan in self.plans
            for log in plan.logs
            if log.held
        ]

    def units(self, policy: Policy) -> tuple[list[Unit], str]:
        """Returns the units of a run, the most urgent first across all tables, and a sentence about the rest.

        Units beyond the policy's `units.per.run` wait for the next run. The sentence is empty when none is left over.
        """
        pieces = [piece for plan in self.plans for piece in plan.units(policy.unit_bytes)]
        pieces.sort(key=lambda piece: piece.urgency(policy.order))
        units = share(pieces, min(policy.unit_bytes, SHARED_BYTES))
        now, rest = units[: policy.units_per_run], units[policy.units_per_run :]
        if not rest:
            return now, ""
        tables = len({piece.table for unit in rest for piece in unit})
        return now, (
            f"{len(rest)} less urgent units, of {tables} tables, wait for the next run, as units.per.run is "
            f"{policy.units_per_run}"
        )


def find_work(
    hp: Planner,
    cache: PlanCache,
    policy: Policy,
    look: Look,
) -> Work:
    """Plans every adopted table of a policy that a name or glob matches; see `PlanCache.plans`.

    Args:
        hp: the library, opened with the cache's memory.
        cache: plans and manifests of earlier looks at this catalog.
        policy: whose tables are planned; those of another policy are passed over.
        look: which tables to plan, when, and with which options.

    Raises:
        Unavailable: the catalog does not answer.
    """
    work = Work()
    for table, plan in cache.plans(hp, look, policy.name):
        if isinstance(plan, OthersTable):
            # a table that two policies name belongs to the first: this is an error only where a request names the table
            asked_for = table in look.patterns and table not in policy.tables
            work.lasting |= asked_for
            (work.errors if asked_for else work.reasons).append(f"{table}: is cleaned by policy {plan.policy}")
        elif isinstance(plan, NotAdopted):
            work.reasons.append(f"{table}: passed over, as nobody adopted it and {of_table(table, plan.error)}")
        elif isinstance(plan, Exception):
            work.errors.append(of_table(table, plan))
            work.refused.append(table)
            work.lasting |= not isinstance(as_hardpack_error(plan), Unavailable)
        else:
            work.plans.append(plan)
            work.reasons += _reasons(plan)
    return work


def planned_logs(plans: Iterable[Plan]) -> list[PlannedLog]:
    """Returns the reason for each log that the plans clean or expire, and for each split that comes before them."""
    return [
        *(PlannedLog(table=plan.table, reason=str(plan.split)) for plan in plans if plan.split),
        *(
            PlannedLog(table=plan.table, partition=log.partition, reason=log.reason)
            for plan in plans
            for log in plan.doing("clean", "expire")
        ),
    ]


def share(pieces: Iterable[Plan], limit: int) -> list[Unit]:
    """Puts small plans together into shared units; each stands in the place of its most urgent plan.

    Args:
        pieces: plans, the most urgent first.
        limit: most bytes of a shared unit.
    """
    units: list[Unit] = []
    open_unit: Unit = []
    room = 0
    for piece in pieces:
        size = piece.bytes
        if open_unit and size <= room and len(open_unit) < SHARED_PLANS:
            open_unit.append(piece)
            room -= size
            continue
        units.append([piece])
        if size <= limit:
            open_unit, room = units[-1], limit - size
    return units


def _reasons(plan: Plan) -> Iterator[str]:
    """Yields a line for each of a plan's first `MOST_REASONS` logs, and one line that counts the rest."""
    if plan.split:
        yield f"{plan.table}: {plan.split}"
    elif not plan.logs:
        yield f"{plan.table}: it has no log yet"
    for log in plan.logs[:MOST_REASONS]:
        yield f"{plan.table}/{log.partition}: {log.action}, {log.reason}"
    if rest := plan.logs[MOST_REASONS:]:
        due = sum(log.action != "none" for log in rest)
        yield f"{plan.table}: and {len(rest)} more logs, {due} of them to be cleaned"
