"""What there is to do, from metadata alone; used by the trigger and by the plan task. Imports pyiceberg when called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_LABEL = 200


def run_time(context: Mapping[str, Any]) -> int:
    """The run's `now` in ms: the end of its data interval, else when it was due to run."""
    at = context.get("data_interval_end") or context["dag_run"].run_after
    return int(at.timestamp() * 1000)


def look(
    catalog: str,
    policy: Mapping[str, Any],
    tables: Sequence[str],
    partitions: Sequence[str] | None,
    force: bool,
    now: int,
    memory: Any = None,
) -> dict[str, Any]:
    """Plan every adopted table of a policy that one of some globs matches.

    Args:
        catalog: name in pyiceberg's configuration.
        policy: the policy.
        tables: tables or globs.
        partitions: only these logs, None for all.
        force: clean whatever is cleanable.
        now: ms.
        memory: what earlier looks left, from `new_memory`; None to look anew.

    Returns:
        `units` (plans as JSON text, each with its label), `reasons` (one line per log), `errors` (one per refused
        table), `gauges` (by name; see `hardpack.metrics`).
    """
    from hardpack import Hardpack, HardpackError
    from hardpack.metrics import sensed
    from hardpack.policy import Policy

    hp, own = Hardpack.connect(catalog, memory=memory), Policy.model_validate(policy)
    units: list[tuple[tuple[float, float], dict[str, str]]] = []
    reasons: list[str] = []
    errors: list[str] = []
    plans = []
    for table in sorted({name for glob in tables for name in hp.tables(glob)}):
        if hp.policies and (its := hp.policies.of(table)) and its.name != own.name:
            (errors if table in tables else reasons).append(f"{table}: is cleaned by policy {its.name}")
            continue
        try:
            plan = hp.plan(table, now, partitions or None, force)
        except Exception as error:  # one broken table must not hide the others
            errors.append(
                str(error) if isinstance(error, HardpackError) else f"{table}: {type(error).__name__}: {error}"
            )
            continue
        plans.append(plan)
        reasons += [f"{table}/{p.partition}: {p.action}, {p.reason}" for p in plan.logs]
        for unit in plan.units(own.unit_bytes):
            names = ",".join(str(p.partition) for p in unit.logs)
            urgency = min(p.urgency(own.order) for p in unit.logs)
            units.append((urgency, {"label": shortened(f"{table} {names}"), "plan": unit.to_json()}))
    # the most urgent first, whichever table it is of
    ordered = [unit for _, unit in sorted(units, key=lambda pair: pair[0])]
    return {"units": ordered, "reasons": reasons, "errors": errors, "gauges": dict(sensed(plans))}


def new_memory() -> Any:
    """What one look leaves for the next, so that it reads only new manifests."""
    from hardpack.lake.sensing import Memory

    return Memory()


def shortened(label: str) -> str:
    """A label that fits Airflow's column for it."""
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 2] + " …"
