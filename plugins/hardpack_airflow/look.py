"""What there is to do, from metadata alone; used by the trigger and by the plan task. Imports pyiceberg when called."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack.plan import Plan
    from hardpack.watch import Watch

LONGEST_LABEL = 200
MOST_REASONS = 20
"""Logs of a table of which a look says why."""
TOGETHER_BYTES, TOGETHER_PLANS = 1024**3, 50
"""Of small tables that share a unit: Spark takes as long to start as to clean a gigabyte."""
_WATCHES: dict[str, Watch] = {}
"""What this process saw of each catalog."""
_ONE_AT_A_TIME = threading.Lock()


def run_time(context: Mapping[str, Any]) -> int:
    """The run's `now` in ms: the end of its data interval; of a run by hand, and of one without, when it was to run.

    The form gives a run by hand the last interval that has ended, which may lie before the last pass.
    """
    run = context["dag_run"]
    at = run.run_after if _kind(run) == "manual" else context.get("data_interval_end") or run.run_after
    return int(at.timestamp() * 1000)


def _kind(run: Any) -> str:
    return str(getattr(run.run_type, "value", run.run_type))


def run_interval(context: Mapping[str, Any]) -> tuple[int, int] | None:
    """The data interval of a backfill in ms, the time whose rows it is about; None for other runs."""
    run = context["dag_run"]
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if _kind(run) != "backfill" or start is None or end is None:
        return None
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000)


def look(
    catalog: str,
    policy: Mapping[str, Any],
    tables: Sequence[str],
    partitions: Sequence[str] | None,
    force: bool,
    now: int,
    interval: Sequence[int] | None = None,
    previous: int | None = None,
) -> dict[str, Any]:
    """Plan every adopted table of a policy that one of some globs matches.

    What a process saw it remembers, so that its next look reads only what is new.

    Args:
        catalog: name in pyiceberg's configuration.
        policy: the policy.
        tables: tables or globs.
        partitions: only these logs, None for all.
        force: clean whatever is cleanable.
        now: ms.
        interval: only logs whose cleanable head has rows of this time, `(start, end)` in ms.
        previous: when the last run began that ended well, ms.

    Returns:
        `units` (each a label and plans as JSON text), `tables` (those with a unit, and the refused), `reasons`
        (why logs are cleaned or not, and which tables were passed over), `errors` (one per refused table, which is
        adopted or named plainly), `gauges` (by name; see `hardpack.metrics`; none unless all of the policy's tables
        were looked at).
    """
    from hardpack import Hardpack
    from hardpack.clock import clock
    from hardpack.failures import of_table
    from hardpack.metrics import sensed
    from hardpack.policy import Policy
    from hardpack.watch import Stranger, Watch

    units: list[tuple[tuple[float, float], Plan]] = []
    reasons: list[str] = []
    errors: list[str] = []
    refused: list[str] = []
    plans = []
    own, span = Policy.model_validate(policy), (interval[0], interval[1]) if interval else None
    with _ONE_AT_A_TIME:
        watch = _WATCHES.setdefault(catalog, Watch())
        hp = Hardpack.connect(catalog, memory=watch.memory)
        for table, plan in watch.plans(hp, tables, now, partitions, force, span):
            if hp.policies and (its := hp.policies.of(table)) and its.name != own.name:
                (errors if table in tables else reasons).append(f"{table}: is cleaned by policy {its.name}")
                continue
            if isinstance(plan, Stranger):
                reasons.append(f"{table}: passed over, as nobody adopted it and {of_table(table, plan.error)}")
                continue
            if isinstance(plan, Exception):
                errors.append(of_table(table, plan))
                refused.append(table)
                continue
            plans.append(plan)
            reasons += _reasons(plan)
            for unit in plan.units(own.unit_bytes):
                units.append((min(p.urgency(own.order) for p in unit.logs), unit))
    # the most urgent first, whichever table it is of
    ordered = [unit for _, unit in sorted(units, key=lambda pair: pair[0])]
    shared = [_unit(plans) for plans in _together(ordered, min(own.unit_bytes, TOGETHER_BYTES))]
    again = refused + [plan.table for plan in plans if plan.doing("clean", "expire")]
    whole = not (partitions or interval) and set(tables) == set(own.tables)
    since = None if previous is None else clock() - previous
    gauges = dict(sensed(plans, len(refused), since)) if whole else {}
    return {"units": shared, "tables": again, "reasons": reasons, "errors": errors, "gauges": gauges}


def _together(units: Iterable[Plan], limit: int) -> list[list[Plan]]:
    """Small pieces of work share a unit and its Spark applications, in the place of the most urgent."""
    shared: list[list[Plan]] = []
    last: list[Plan] = []
    room = 0
    for unit in units:
        size = sum(log.bytes for log in unit.logs)
        if last and size <= room and len(last) < TOGETHER_PLANS:
            last.append(unit)
            room -= size
            continue
        shared.append([unit])
        if size <= limit:
            last, room = shared[-1], limit - size
    return shared


def _unit(plans: Sequence[Plan]) -> dict[str, Any]:
    names = [f"{plan.table} {','.join(str(log.partition) for log in plan.logs)}" for plan in plans]
    return {"label": shortened("; ".join(names)), "plans": [plan.to_json() for plan in plans]}


def _reasons(plan: Plan) -> Iterator[str]:
    """One line per log; of a table with many logs only the first, which are the most urgent."""
    for log in plan.logs[:MOST_REASONS]:
        yield f"{plan.table}/{log.partition}: {log.action}, {log.reason}"
    if rest := plan.logs[MOST_REASONS:]:
        due = sum(log.action != "none" for log in rest)
        yield f"{plan.table}: and {len(rest)} more logs, {due} of them to be cleaned"


def shortened(label: str) -> str:
    """A label that fits Airflow's column for it."""
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 2] + " …"
