"""What there is to do, from metadata alone; used by the trigger and by the plan task. Imports pyiceberg when called."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack.operations.plan_tables import PlanCache
    from hardpack.operations.units import Unit

FORMS = ("tables", "partitions", "force", "dry_run", "action", "table", "catalog", "trust_late_rows")
"""The fields that forms of hardpack's DAGs have."""
POLICY_FORM = frozenset(("tables", "partitions", "force", "dry_run"))
"""The fields of the form of a policy's DAG. A user's own DAG with hardpack's tasks does not have all four."""
CARRIED = frozenset(("openlineage",))
"""Fields that Airflow's own providers add to the `conf` of a run that a task of another DAG starts."""
LONGEST_LABEL, MOST_REASONS, MOST_HELD, MOST_ERRORS = 200, 20, 100, 300
_LOOKING: dict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)
"""A lock by catalog and policy, so that a look that hangs holds up no other policy's look."""
_PLAN_CACHES: dict[tuple[str, str], PlanCache] = {}
"""What this process has read of tables, by catalog and policy."""


def run_time(context: Mapping[str, Any]) -> int:
    """Returns the run's `now` in ms: for a scheduled run or a backfill, the end of its data interval.

    For any other run it is the time at which the run was to start. Airflow gives such a run the last interval that has
    ended, which may lie before the last pass.
    """
    run = context["dag_run"]
    by_interval = kind_of(run) in ("scheduled", "backfill")
    at = (by_interval and context.get("data_interval_end")) or run.run_after
    return int(at.timestamp() * 1000)


def planning_time(context: Mapping[str, Any]) -> int:
    """Returns the time in ms by which a task of a user's own DAG plans.

    In a scheduled run or a backfill it is the run's time. In any other run it is the clock's: a sensor before the task
    may have waited for something that became due since the run began.
    """
    from hardpack.clock import clock

    return run_time(context) if kind_of(context["dag_run"]) in ("scheduled", "backfill") else clock()


def kind_of(run: Any) -> str:
    """Returns how a run came about, as Airflow calls it."""
    return str(getattr(run.run_type, "value", run.run_type))


def is_by_hand(run: Any) -> bool:
    """Returns whether somebody, or a task of another DAG, started a run and named what it is for."""
    return kind_of(run) not in ("scheduled", "backfill", "asset_triggered")


def see_that_the_form_counts(context: Mapping[str, Any], all_ours: bool = False) -> None:
    """Raises unless what a run was started with reaches its tasks.

    Args:
        context: the task's, with its run, its DAG and the values of the form.
        all_ours: whether the DAG is known to be hardpack's; else a policy's DAG is recognised by its form.

    Raises:
        AirflowFailException: Airflow gives the tasks another value of the form, so that a dry run would change tables;
            or the run was started with a field that the form does not have, which would be ignored.
    """
    from hardpack_airflow.airflow_names import AirflowFailException

    asked_for, params = getattr(context["dag_run"], "conf", None) or {}, context.get("params") or {}
    form = context["dag"].params if "dag" in context else {}
    # a user's own DAG may be started with fields that concern other tasks
    ours = all_ours or set(form) >= POLICY_FORM
    if ours and (unknown := [name for name in asked_for if name not in form and name not in CARRIED]):
        raise AirflowFailException(
            f"The run was started with {unknown[0]!r}, which the form of its DAG does not ask, expected some of "
            f"{', '.join(form)}. Nothing was changed."
        )
    for name in FORMS:
        if name in asked_for and name in params and params[name] != asked_for[name]:
            raise AirflowFailException(
                f"The run was started with {name}={asked_for[name]!r}, and Airflow gives its tasks {params[name]!r}; "
                "set [core] dag_run_conf_overrides_params to True. Nothing was changed."
            )


def run_interval(context: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the data interval in ms whose rows a backfill is about; None for other runs."""
    run = context["dag_run"]
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if kind_of(run) != "backfill" or start is None or end is None:
        return None
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000)


def plan_units(
    catalog: str,
    policy: Mapping[str, Any],
    tables: Sequence[str],
    partitions: Sequence[str] | None,
    force: bool,
    now: int,
    interval: Sequence[int] | None = None,
    previous: int | None = None,
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Plans every adopted table of a policy that one of the globs matches.

    This process and hardpack's home keep what the look read, so that the next look reads only what is new.

    Args:
        catalog: name in pyiceberg's configuration.
        policy: the policy.
        tables: tables or globs.
        partitions: only these logs, None for all.
        force: clean whatever is cleanable.
        now: ms.
        interval: only logs whose cleanable head has rows of this time, `(start, end)` in ms.
        previous: when the last successful run began, ms.
        only: names of the only tables to look at, which an earlier look has found; None for all that match.

    Returns:
        `units` (each a label and plans as JSON text), `tables` (those with work, and those refused), `reasons`
        (why logs are cleaned or not, and which tables were passed over), `errors` (a sentence for each refused table,
        and for each that is asked for by its name and is another policy's), `lasting` (whether an error stays until
        somebody mends a table or asks for another), `held` (the first logs that somebody has to do something about),
        `gauges` (those of `hardpack.operations.gauges` by name; empty unless the look was over all of the policy).
    """
    from hardpack import Hardpack
    from hardpack.clock import clock
    from hardpack.home import default_home, file_name
    from hardpack.operations.gauges import died, sensed
    from hardpack.operations.plan_tables import Look, PlanCache
    from hardpack.operations.units import find_work
    from hardpack.policy import Policies, Policy
    from hardpack.policy.file import policies_in_force

    own, span = Policy.model_validate(policy), (interval[0], interval[1]) if interval else None
    which = catalog, own.name
    with _LOOKING[which]:
        if which not in _PLAN_CACHES:
            file = ".".join(file_name(part, dots=False) for part in which)
            _PLAN_CACHES[which] = PlanCache(default_home() / "looks" / f"{file}.jsonl")
        cache = _PLAN_CACHES[which]
        # a policy that was made in code stands in no file, so it is added to those of the file
        in_force = policies_in_force()
        policies = in_force.with_own(own) if in_force else Policies(policies=(own,))
        hp = Hardpack.connect(catalog, memory=cache.memory, policies=policies)
        try:
            look = Look(tables, now, partitions, force, span, set(only) if only else None)
            work = find_work(hp, cache, own, look)
        finally:
            # a look that is cut off keeps the tables it has read, so that the next one comes further
            cache.keep()
    again = work.refused + [plan.table for plan in work.plans if plan.has_work]
    whole = not (partitions or interval or only) and set(tables) == set(own.tables)
    looked = clock()
    since = None if previous is None else looked - previous
    gauges = dict(sensed(work.plans, looked, len(work.refused), since)) if whole else {}
    if whole and not any(plan.has_work for plan in work.plans):
        # a run with nothing to do has no report that would send this gauge
        gauges |= died(0)
    units, waiting = work.units(own)
    reasons = [*work.reasons, waiting] if waiting else work.reasons
    errors = work.errors[:MOST_ERRORS]
    if more := len(work.errors) - len(errors):
        # the list is short, as it goes through Airflow's database
        errors.append(f"and {more} more tables that could not be read or planned")
    mapped = [_mapped(unit) for unit in units]
    held = [log.model_dump() for log in work.held[:MOST_HELD]]
    return {
        "units": mapped, "tables": again, "reasons": reasons, "errors": errors, "lasting": work.lasting,
        "held": held, "gauges": gauges,
    }  # fmt: skip


def unit_of_table(
    catalog: str, table: str, verb: str, now: int, partitions: Sequence[str] | None = None, force: bool = False
) -> dict[str, Any]:
    """Returns a table's work as an operator takes it: `label`, `plans` as JSON text, and the `reasons` of the plan.

    Args:
        catalog: its name in pyiceberg's configuration.
        table: its name.
        verb: one of the operator's.
        now: ms.
        partitions: only these logs, None for all.
        force: clean whatever is cleanable.

    Raises:
        BadInput: there is no such table, or it cannot be planned.
        Unavailable: the catalog does not answer.
    """
    from hardpack import Hardpack
    from hardpack.cli.spark_submit import TableRequest

    if verb != "phase_one":
        # what phase two removes may be due when no log is due for phase one, so no plan is asked
        request = TableRequest(table=table, now=now, partitions=[str(p) for p in partitions or ()] or None)
        return {"label": table, "plans": [request.model_dump_json()], "reasons": []}
    plan = Hardpack.connect(catalog).plan(table, now, partitions, force)
    reasons = [f"{log.partition}: {log.reason}" for log in plan.logs[:MOST_REASONS]]
    return {"label": table, "plans": [plan.to_json()] if plan.has_work else [], "reasons": reasons}


def _mapped(unit: Unit) -> dict[str, Any]:
    """Returns what Airflow hands to the mapped task group of a unit."""
    names = [f"{plan.table} {','.join(map(str, plan.partitions or ['split']))}" for plan in unit]
    return {"label": shortened("; ".join(names)), "plans": [plan.to_json() for plan in unit]}


def shortened(label: str, most: int = LONGEST_LABEL) -> str:
    """Returns a label of at most so many characters; by default it fits Airflow's column for labels."""
    return label if len(label) <= most else label[: most - 2] + " …"
