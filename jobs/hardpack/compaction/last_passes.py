"""The last passes of each log, as the snapshots' summaries tell of them: what verification holds the table against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hardpack.compaction.report import LogReport, PassReport
from hardpack.compaction.verify_sample import Settled
from hardpack.rules.causes import CAUSES, rows_removed
from hardpack.table.history import ancestors, commits, is_earlier_portion


@dataclass(frozen=True)
class LastPass:
    """What one pass did to a log, and the snapshots around it."""

    base: int | None
    """The snapshot that the pass read."""
    parent: int | None
    """The snapshot on which the pass, or its first portion, was committed; another writer may have made it meanwhile.

    None where the catalog does not tell it.
    """
    made: int
    did: LogReport
    portions: tuple[int, ...] = ()
    """The snapshots of its earlier portions."""


class OwnSnapshots(NamedTuple):
    """The snapshot that a pass read, and those that it made."""

    base: int
    made: tuple[int, ...]


class Span(NamedTuple):
    """Snapshots around the last passes of some logs."""

    before: int | None
    """The snapshot before a pass, None where the catalog does not tell it."""
    made: int
    """The snapshot that the pass made."""
    until: int | None
    """The last snapshot before retention, or a pass that died, removed rows since; None where neither did."""


@dataclass(frozen=True)
class LastPasses:
    """The last phase one of each log, and the phase two after it."""

    spans: dict[Span, list[LogReport]] = field(default_factory=dict)
    """Reports by the snapshots around the passes; both phases of a log make one report."""
    by_log: dict[str, list[LastPass]] = field(default_factory=dict)
    """The passes of each log one by one, the newest first, by log."""
    settled: dict[str, Settled] = field(default_factory=dict)
    """The part of each log that the pass before these had settled, by log."""

    def of(self, logs: Iterable[LogReport]) -> dict[str, list[LastPass]]:
        """Returns the passes of some logs, by log."""
        return {log.name: self.by_log[log.name] for log in logs}

    def alone(self, table: Table, logs: Iterable[LogReport]) -> list[tuple[OwnSnapshots, list[LogReport]]]:
        """Returns the reports of each pass by itself, with the snapshots that it read and made, if none has expired.

        Args:
            table: as pyiceberg loaded it.
            logs: only passes of these logs.
        """
        by_commit: dict[OwnSnapshots, list[LogReport]] = defaultdict(list)
        for log in logs:
            for one in self.by_log[log.name]:
                if one.base is not None and all(map(table.snapshot_by_id, (one.base, *one.portions, one.made))):
                    by_commit[OwnSnapshots(one.base, (*one.portions, one.made))].append(one.did)
        return list(by_commit.items())


def last_passes(table: Table, wanted: Collection[str] | None) -> LastPasses:
    """Returns the last passes of a table's logs.

    Args:
        table: as pyiceberg loaded it.
        wanted: only these logs; None for all that a pass has touched.
    """
    later: dict[str, tuple[int | None, int, LogReport]] = {}
    cleaned: dict[str, tuple[int | None, int, LogReport]] = {}
    until: dict[str, int | None] = {}
    own: dict[str, list[LastPass]] = defaultdict(list)
    settled: dict[str, Settled] = {}
    died: list[int | None] = []
    for snapshot, report in _newest_first(table):
        parent, made = snapshot.parent_snapshot_id, snapshot.snapshot_id
        if report is None:
            # no report tells what this commit removed, so what passes did before it is looked at apart
            died, cleaned = [parent], later | cleaned
            until |= dict.fromkeys(until.keys() - cleaned.keys(), parent)
            continue
        before = _before(table, snapshot, report)
        for entry in report.logs:
            name = entry.name
            if name in cleaned and name not in settled and report.phase == "one":
                part = Settled.of(table, entry, report.base, (*report.portions, made))
                settled |= {name: part} if part else {}
            if name in cleaned or (wanted is not None and name not in wanted):
                continue
            if report.phase == "retention":
                # what retention took is not the pass's doing, so the phase before it is looked at apart
                if name in later:
                    cleaned[name] = later[name]
                else:
                    until[name] = parent
                continue
            own[name].append(LastPass(report.base, before, made, entry, report.portions))
            _, end, later_entry = later.get(name, (None, made, None))
            if died:
                until.setdefault(name, died[0])
            (cleaned if report.phase == "one" else later)[name] = (before, end, _merged(later_entry, entry))
    spans: dict[Span, list[LogReport]] = defaultdict(list)
    for name, (base, end, entry) in (later | cleaned).items():
        spans[Span(base, end, until.get(name))].append(entry)
    return LastPasses(dict(spans), dict(own), settled)


def _newest_first(table: Table) -> Iterator[tuple[Snapshot, PassReport | None]]:
    """Yields the snapshots of passes with their reports, newest first.

    The report is None for a portion of a pass that died, and for a pass whose report cannot be used: the file of a long
    one is gone, or it tells of logs by other columns than the table's settings name now.
    """
    reports, ended = {commit.snapshot: commit for commit in commits(table)}, set[int]()
    for snapshot in ancestors(table):
        commit = reports.get(snapshot.snapshot_id)
        if commit and commit.report and commit.as_mapped:
            report = PassReport.from_summary(commit.report, commit.snapshot)
            ended |= set(report.portions)
            yield snapshot, report
        elif commit or (is_earlier_portion(snapshot) and snapshot.snapshot_id not in ended):
            yield snapshot, None


def _before(table: Table, snapshot: Snapshot, report: PassReport) -> int | None:
    """Returns the snapshot on which a pass, or the first of its portions, was committed."""
    first = table.snapshot_by_id(report.portions[0]) if report.portions else snapshot
    return first.parent_snapshot_id if first else None


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
