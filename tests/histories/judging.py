"""The stand-in for what judges rows before and after a pass: gate and verification by the plain rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hardpack.compaction import verify_sample
from hardpack.rules.causes import CAUSES

from tests.histories.ice import Row


@dataclass(frozen=True)
class Columns:
    """Cells by role, as the table's columns are named now."""

    key: int
    value: int

    @classmethod
    def of(cls, columns: Any) -> Columns:
        return cls(columns.keys[0].field_id, columns.value.field_id)


def broken(before: list[Row], after: list[Row], entry: Any, at: Columns, ended: bool = True) -> list[str]:
    """The guarantees that do not hold between two sets of rows of a log, as the suite of expectations has them."""
    bound, end = (entry.checkpoint_after or 0) if entry.latest_to is None else entry.latest_to, entry.log_end
    copied = entry.copied_to if entry.copied_to is not None else bound
    had, has = Counter(r[1:] for r in before), Counter(r[1:] for r in after)
    tomb = {r[1:] for r in (*before, *after) if r[at.value] is None and r[at.key] is not None
            and any(low <= r.offset <= high for low, high in entry.expired)}  # fmt: skip
    found = []
    latest = {
        r[at.key]: r for r in sorted(before, key=lambda r: r.offset) if r.offset < bound and r[at.key] is not None
    }
    left: dict[str, set[int]] = defaultdict(set)
    for row in after:
        if row.offset < bound and row[at.key] is not None:
            left[row[at.key]].add(row.offset)
    wrong = (k for k, r in latest.items() if max(left[k], default=None) != r.offset
             and not (r[1:] in tomb and not left[k]))  # fmt: skip
    if any(wrong) or (ended and any(len(offsets) > 1 for offsets in left.values())):
        found.append("expect_latest_record_per_key")
    if any(n > had[c] for c, n in has.items() if c[1] < end):
        found.append("expect_kept_records_unchanged")
    if any(n > has[c] for c, n in had.items() if c[1] >= copied):
        found.append("expect_head_untouched")
    if any(c in has for c in tomb):
        found.append("expect_no_tombstone_past_horizon")
    if sum(n for c, n in had.items() if c[1] < end) - sum(n for c, n in has.items() if c[1] < end) != entry.removed:
        found.append("expect_ledger_balances")
    return found


def compare(
    session: Any,
    columns: Any,
    snapshots: tuple[int, int],
    logs: list[Any],
    title: str = "",
    own: Sequence[int] = (),
    mixed: Any = (),
    unread: Any = (),
) -> Any:
    """Stands for `verify._compare`. What is broken only where some files are not read is a wrong choice of these."""
    if unread:
        seen = _compared(session, columns, snapshots, logs, own, mixed, unread)
        if seen.success or not _compared(session, columns, snapshots, logs, own, mixed).success:
            return seen
        raise AssertionError(f"without {sorted(unread)} the rows seem to break {', '.join(seen.failed)}")
    return _compared(session, columns, snapshots, logs, own, mixed)


def all_but_one(views: Any, settled: Any, expired: Any, _limit: int, seed: str) -> set[str]:
    """Stands for `verify.passed_over`, as logs here are small: a sample of one file."""
    return verify_sample.passed_over(views, settled, expired, 1, seed)


def _compared(
    session: Any,
    columns: Any,
    snapshots: tuple[int, int],
    logs: list[Any],
    own: Sequence[int],
    mixed: Any,
    unread: Any = (),
) -> Any:
    tab, at = session.jvm.tab, Columns.of(columns)
    sides = []
    for number in snapshots:
        session.jvm.scan_tasks(number, [])
        shown = tab.visible(tab.meta.snapshot_by_id(number))
        sides.append({path: rows for path, rows in shown.items() if path not in mixed})
    same = {path for path in sides[0].keys() & sides[1].keys() if sides[0][path] == sides[1][path]}
    sides = [{p: rows for p, rows in side.items() if p not in same.intersection(unread)} for side in sides]
    if own:
        new, removed, came = set[str](), set[str](), set[str]()
        for wrote in map(tab.meta.snapshot_by_id, own):
            came |= new
            new |= {
                e.data_file.file_path for e in tab.entries(wrote) if e.file_sequence_number == wrote.sequence_number
            }
            parent = tab.meta.snapshot_by_id(wrote.parent_snapshot_id or 0)
            removed |= set(tab.paths(parent)) - set(tab.paths(wrote))
        sides[1] = {p: rows for p, rows in sides[1].items() if p in sides[0] or p in new}
        before, after = (tab.deletes(tab.meta.snapshot_by_id(number)) for number in snapshots)
        ours = {tab.meta.snapshot_by_id(number).sequence_number for number in own}
        theirs = (path for path, sequence in after.items() if path not in before and sequence not in ours)
        began = sides[0].keys() | came
        taken = {data for path in theirs for data in tab.store.positions[path]} & began & sides[1].keys()
        if taken or began - sides[1].keys() - removed:
            sides[0], logs = sides[1], [entry.model_copy(update={c.name: 0 for c in CAUSES}) for entry in logs]
    sides = [[r for found in side.values() for r in found] for side in sides]
    failed: dict[str, list[str]] = defaultdict(list)
    for entry in logs:
        own = [[r for r in side if r.log == int(entry.partition)] for side in sides]
        for expectation in broken(*own, entry, at):
            failed[expectation].append(str(entry.partition))
    results = [{"expectation": e, "success": False, "observed": "", "partitions": []} for e in failed]
    return SimpleNamespace(success=not failed, failed=list(failed), results=results, page="", broken=())
