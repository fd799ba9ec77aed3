"""The guarantees on the published table: each log's last pass, the snapshot before it against the current one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from hardpack.data_docs import page_title, partitions
from hardpack.errors import GateRefused
from hardpack.gate import judge, promise
from hardpack.lake.door import IceTable
from hardpack.lake.history import commits, summary_of
from hardpack.lake.layout import check_layout, settings_of, table_name
from hardpack.lake.state import PLAN_SUMMARY
from hardpack.log.causes import CAUSES, rows_removed
from hardpack.log.model import Partition
from hardpack.log.settings import NONE, Settings
from hardpack.report import Check, LogReport, PassReport, VerifyReport
from hardpack.spark.evidence import Side, evidence

if TYPE_CHECKING:
    from hardpack_expectations.checkpoint import Verdict


def verify(
    door: IceTable,
    table: Table,
    now: int,
    partitions: Iterable[Partition] | None,
    home: Path,
    policy: Mapping[str, str] = NONE,
) -> VerifyReport:
    """Run the expectations on the current snapshot, against the one before each log's last phase one.

    Args:
        door: the table through Spark's catalog.
        table: the same through pyiceberg's, freshly loaded.
        now: for the report.
        partitions: only these logs; None for all that a pass has touched.
        home: folder for validation results and Data Docs.
        policy: settings of the table's policy.

    Raises:
        BadInput: a column is no longer the one that was mapped when the table was adopted.
    """
    started = time.monotonic()
    name, settings, current = table_name(table), settings_of(table, policy), table.current_snapshot()
    check_layout(table, settings)
    passes, spans = _last_passes(table, None if partitions is None else {str(p) for p in partitions})
    checks: list[Check] = []
    pages: list[str] = []
    passes_hold = True
    note = "" if passes else "no pass of these logs is in the table's history, so there is nothing to compare"
    for (base, end, until), logs in passes.items():
        did = _plan_of(table, end)
        snapshot, standing = current.snapshot_id if current else end, [_standing(p) for p in logs]
        compared = [((snapshot, snapshot), standing)]
        if base is None or any(table.snapshot_by_id(s) is None for s in (base, until) if s is not None):
            lost = "is not told by the catalog" if base is None else "has expired"
            which = "the snapshot" if base is None else f"snapshot {base}"
            note = f"{which} before the last pass {lost}, so only what must hold at any time was checked"
        elif until is None:
            compared = [((base, snapshot), logs)]
        else:
            # what retention took is missing rightly
            compared = [((base, until), logs), *compared]
        found = [_compare(door, settings, name, span, promised, home, did) for span, promised in compared]
        checks += [Check.model_validate(r) for verdict in found for r in verdict.results]
        pages += [verdict.page for verdict in found]
        held = all(verdict.success for verdict in found)
        if not held:
            own = _by_themselves(door, settings, table, _own(table, logs, spans), home, did)
            pages += [verdict.page for verdict in own]
            held = all(verdict.success for verdict in own)
            blame = "which kept every guarantee" if held else "which had broken a guarantee itself"
            note = f"rows came, or others changed some, after the pass of snapshot {end}, {blame}"
        passes_hold = passes_hold and held
    return VerifyReport(
        table=name,
        now=now,
        success=all(c.success for c in checks),
        passes_hold=passes_hold,
        seconds=round(time.monotonic() - started, 1),
        checks=tuple(checks),
        data_docs=tuple(pages),
        note=note,
    )


def must_hold(report: VerifyReport) -> VerifyReport:
    """The same report, when the passes kept every guarantee; what others did to the rows since is theirs.

    Raises:
        GateRefused: naming what broke.
    """
    if not report.passes_hold:
        broken = ", ".join(sorted({c.expectation for c in report.checks if not c.success}))
        raise GateRefused(
            f"{report.table}: the published table breaks {broken}; see {', '.join(report.data_docs)}, and look at the "
            "task's log for an error of Spark before anything is undone.",
            pages=report.data_docs,
        )
    return report


Span = tuple[int | None, int, int | None]
"""The snapshot before a pass, None where the catalog does not tell it, the one that it made, and the last one before
retention took rows since, None if it did not."""


Own = dict[str, list[tuple[int | None, int, LogReport]]]
"""By log its passes that are looked at, each with the snapshot that it read and the one that it made."""


def _last_passes(table: Table, wanted: set[str] | None) -> tuple[dict[Span, list[LogReport]], Own]:
    """Per log the newest phase one with the phase two after it as one entry, by the snapshots around both."""
    later: dict[str, tuple[int | None, int, LogReport]] = {}
    found: dict[str, tuple[int | None, int, LogReport]] = {}
    until: dict[str, int | None] = {}
    own: Own = defaultdict(list)
    for commit in commits(table):
        if not commit.report:
            # too long for its summary, and the file beside the table is gone
            continue
        report = PassReport.from_summary(commit.report, commit.snapshot)
        for entry in report.logs:
            name = str(entry.partition)
            if name in found or (wanted is not None and name not in wanted):
                continue
            if report.phase == "retention":
                # what it took is not the pass's doing, so the phase before it is looked at apart
                if name in later:
                    found[name] = later[name]
                else:
                    until[name] = commit.parent
                continue
            own[name].append((report.base, commit.snapshot, entry))
            _, end, known = later.get(name, (None, commit.snapshot, None))
            (found if report.phase == "one" else later)[name] = (commit.parent, end, _merged(known, entry))
    spans: dict[Span, list[LogReport]] = defaultdict(list)
    for name, (base, end, entry) in (later | found).items():
        spans[base, end, until.get(name)].append(entry)
    return dict(spans), own


def _own(table: Table, logs: Iterable[LogReport], own: Own) -> list[tuple[tuple[int, int], list[LogReport]]]:
    """What each pass of some logs did by itself: the snapshots that it read and made, as far as they are there."""
    by_commit: dict[tuple[int, int], list[LogReport]] = defaultdict(list)
    for log in logs:
        for before, made, entry in own[str(log.partition)]:
            if before is not None and table.snapshot_by_id(before) and table.snapshot_by_id(made):
                by_commit[before, made].append(entry)
    return list(by_commit.items())


def _by_themselves(
    door: IceTable,
    settings: Settings,
    table: Table,
    own: Iterable[tuple[tuple[int, int], list[LogReport]]],
    home: Path,
    did: str,
) -> list[Verdict]:
    """Judge what passes did to the rows that they read, whatever came beside or after them."""
    return [_compare(door, settings, table_name(table), *one, home, did, own=True) for one in own]


def _plan_of(table: Table, snapshot: int) -> str:
    """Which pass made a snapshot, for people."""
    found = table.snapshot_by_id(snapshot)
    phase, _, plan = (summary_of(found).get(PLAN_SUMMARY, "") if found else "").partition(":")
    return f"phase {phase}, plan {plan}, snapshot {snapshot}" if plan else f"snapshot {snapshot}"


def _standing(entry: LogReport) -> LogReport:
    """What can be promised without the rows before: nothing was removed from the snapshot against itself."""
    return entry.model_copy(update={cause.name: 0 for cause in CAUSES})


def _merged(later: LogReport | None, earlier: LogReport) -> LogReport:
    if later is None:
        return earlier
    return earlier.model_copy(
        update={
            "checkpoint_after": later.checkpoint_after,
            "expired": (*earlier.expired, *later.expired),
        }
        | {cause.name: rows_removed(earlier, cause) + rows_removed(later, cause) for cause in CAUSES}
    )


def _compare(
    door: IceTable,
    settings: Settings,
    name: str,
    snapshots: tuple[int, int],
    logs: list[LogReport],
    home: Path,
    did: str,
    own: bool = False,
) -> Verdict:
    """Judge the rows of two snapshots; with `own` those alone that the second one's pass has read or written."""
    base, current = snapshots
    title = page_title(name, logs, f"published {current}")
    values = [p.partition for p in logs]
    before = door.scan_tasks(base, settings.column_partition, values)
    after = door.scan_tasks(current, settings.column_partition, values)
    if own:
        wrote = door.sequence_number(current)
        after = {p: t for p, t in after.items() if p in before or int(t.file().fileSequenceNumber()) == wrote}
        if before.keys() - after.keys() - door.removed_files(current):
            # others took files while the pass ran: what it removed can no longer be told from what they did
            before, logs = after, [_standing(entry) for entry in logs]
    shared = before.keys() & after.keys()
    if door.delete_manifests(base) or door.delete_manifests(current):
        shared = {path for path in shared if door.deletes(before[path]) == door.deletes(after[path])}
    with ExitStack() as hold:
        sides = [
            Side([after[path] for path in shared], "both"),
            Side([t for path, t in before.items() if path not in shared], "before", wide=True),
            Side([t for path, t in after.items() if path not in shared], "after", wide=True),
        ]
        rows = evidence(door, settings, sides, hold, published=True)
        about = {"Pass": did, "Snapshot": f"{current}, as published", "Compared with": f"snapshot {base}"}
        return judge(rows, name, title, [promise(p) for p in logs], home, about | {"Partitions": partitions(logs)})
