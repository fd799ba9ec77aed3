"""A plan compared with the table: is it still the same table, and do its logs stand as they were planned?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from hardpack.compaction.plan import LogPlan, Plan
from hardpack.compaction.report import PassReport
from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput, CommitUnknown, Conflict
from hardpack.rules.model import LogView
from hardpack.table.history import ancestors
from hardpack.table.layout import check_layout
from hardpack.table.log_views import read_logs, table_logs
from hardpack.table.state import seen_by_reading

log = logging.getLogger(__name__)
REPLANS = 2


def clean_or_replan(
    plan: Plan, clean: Callable[[Plan], PassReport], replan: Callable[[Plan, dict[str, int]], Plan]
) -> PassReport:
    """Runs phase one of a plan; if another commit changed the table meanwhile, plans its logs anew and tries again.

    Args:
        plan: the plan.
        clean: runs phase one.
        replan: plans the whole table as it is now, at a plan's time and with its last stable offsets by log.

    Raises:
        Conflict: the table moves on faster than it can be cleaned.
    """
    for _ in range(REPLANS):
        try:
            return clean(plan)
        except CommitUnknown:
            raise
        except Conflict as conflict:
            log.info("%s", conflict)
            plan = plan if plan.split else _replanned(plan, replan)
    return clean(plan)


def _replanned(plan: Plan, replan: Callable[[Plan, dict[str, int]], Plan]) -> Plan:
    last_stable = {p.name: p.last_stable for p in plan.logs if p.last_stable is not None}
    fresh = replan(plan, last_stable)
    # some of the logs may be gone, or in mixed files that a writer has added since
    logs = tuple(p for p in fresh.logs if plan.is_about(p.partition))
    asked = tuple(p.partition for p in plan.logs)
    split = fresh.split and fresh.split.model_copy(update={"partitions": asked, "last_stable": last_stable or None})
    return fresh.model_copy(update={"logs": logs, "split": split, "unit_bytes": plan.unit_bytes})


def planned_views(session: TableSession, plan: Plan, partitions: Sequence[str]) -> list[LogView]:
    """Returns some logs at the plan's snapshot, if the table still stands as it was planned.

    Args:
        session: the table's.
        plan: one that was made from a snapshot.
        partitions: texts of the logs' partitions, which the plan names.

    Raises:
        BadInput: the plan is for another table, or its columns no longer fit the plan's settings.
        Conflict: a log was cleaned since, or an input file is gone.
    """
    name, table = session.name, session.table
    check_base(session, plan)
    check_layout(table, plan.settings)
    planned = table_logs(table, plan.settings, plan.snapshot, partitions=partitions)
    if planned.mixed:
        raise Conflict(
            f"{name}: {len(planned.mixed)} files of snapshot {plan.snapshot} hold rows of several logs, which a writer "
            "added since others were split; run it again."
        )
    then = {v.name: v for v in planned.views}
    moved = session.base != plan.snapshot
    now = {v.name: v for v in read_logs(table, plan.settings, partitions=partitions)} if moved else then
    entries, read = {p.name: p for p in plan.logs}, seen_by_reading(table, plan.snapshot or 0).read
    for partition in partitions:
        view, entry = then.get(partition), entries[partition]
        live = {f.path for f in now[partition].files} if partition in now else set()
        stays = view is not None and {f.path for f in view.files} <= live
        if view is None or not stays or _passed_since(view, entry, read):
            raise Conflict(
                f"{name}: the plan was made for snapshot {plan.snapshot}, and partition {partition} has been cleaned "
                "or rewritten since; plan again."
            )
    return [then[p] for p in partitions]


def check_base(session: TableSession, plan: Plan) -> None:
    """Checks that the table is the plan's, and that the snapshot which the plan was made from is in its past.

    Args:
        session: the table's.
        plan: the plan.

    Raises:
        BadInput: the plan is for another table.
        Conflict: the snapshot is no longer in the table's past.
    """
    name, table = session.name, session.table
    if str(table.metadata.table_uuid) != plan.uuid:
        raise BadInput(f"{name}: the plan was made for another table of this name; plan again.")
    if session.base != plan.snapshot and plan.snapshot not in {s.snapshot_id for s in ancestors(table)}:
        raise Conflict(
            f"{name}: snapshot {plan.snapshot}, which the plan was made from, is no longer in the table's past, as "
            "after a rollback, an expiry or when the table was replaced; plan again."
        )


def _passed_since(view: LogView, entry: LogPlan, read: int) -> bool:
    """Returns whether a pass has committed a log since its plan was made.

    Args:
        view: the log at the plan's snapshot, with the state that the table has now.
        entry: what the plan says of it.
        read: sequence number of the snapshot that the plan was made from.
    """
    # the checkpoint alone does not tell: a pass whose map is full of late rows does not move it
    return view.state.checkpoint != entry.checkpoint or view.state.last_pass_sequence > read
