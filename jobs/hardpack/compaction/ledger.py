"""The ledger of a pass: its accounts. Rows in, rows out and rows by cause must balance (invariant 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hardpack.compaction.choice import Choice
from hardpack.compaction.portions import PublishedPortion, together
from hardpack.compaction.report import LogReport
from hardpack.compaction.staging import Staged
from hardpack.compaction.work import LogFacts, LogWork
from hardpack.rules.causes import CAUSES
from hardpack.rules.model import LogState, tombstones_below


@dataclass(frozen=True)
class Ledger:
    """What a pass claims to have done, log by log."""

    staged: Staged
    logs: tuple[LogReport, ...]
    earlier: tuple[PublishedPortion, ...] = ()
    """Portions of the same pass that are published; neither field above counts them."""

    @property
    def choice(self) -> Choice:
        """What becomes of each file."""
        return self.staged.choice

    @cached_property
    def whole(self) -> Ledger:
        """The ledger of the whole pass: this commit and the earlier portions together."""
        return ledger_of(together(self.earlier, self.staged)) if self.earlier else self

    def states(self, commit: int) -> dict[str, LogState]:
        """Returns the state that the pass leaves of each log, by log.

        Args:
            commit: the time of the commit, ms.
        """
        emptied = {entry.name: not entry.rows_after for entry in self.logs}
        return {name: replace(state, empty=emptied[name]) for name, state in _states(self.choice, commit).items()}


def ledger_of(staged: Staged, earlier: tuple[PublishedPortion, ...] = ()) -> Ledger:
    """Makes the ledger: counts rows, bytes and files of each log before and after.

    Args:
        staged: what the pass has written, or a portion of it.
        earlier: its portions that are published.
    """
    choice = staged.choice
    columns, new = choice.work.columns, staged.new_by_log
    states = _states(choice, choice.work.request.commit_time())
    logs = []
    for log in choice.work.logs:
        own = new[log.name]
        logs.append(
            _report(
                choice,
                log,
                states[log.name],
                rows=sum(f.rows for f in own),
                size=sum(f.bytes for f in own),
                files=len(own),
                tombstones=[f.tombstones(columns) for f in own],
            )
        )
    return Ledger(staged, tuple(logs), earlier)


def expected(choice: Choice) -> tuple[LogReport, ...]:
    """Returns the reports that a pass would make, from its choice alone; bytes of new files are estimated from rows.

    Args:
        choice: what becomes of each file.
    """
    states = _states(choice, choice.work.request.commit_time())
    data_files, logs = choice.inputs.data_files, []
    living = {path: data_files[path].rows - len(choice.skipped(path)) for path in choice.removed}
    # all files of a run are of one log, so that its first file tells which
    begun = {run[0] for run in choice.rewrite if any(living[path] for path in run)}
    for log in choice.work.logs:
        own = {f.path for f in log.view.files} & choice.removed
        size = sum(data_files[path].bytes * living[path] // data_files[path].rows for path in own)
        rows = sum(living[path] for path in own)
        written = len(own & begun)
        logs.append(_report(choice, log, states[log.name], rows=rows, size=size, files=written, tombstones=[None]))
    return tuple(logs)


def _states(choice: Choice, commit: int) -> dict[str, LogState]:
    facts, base, seen = choice.dead.facts, choice.work.request.base, choice.inputs.seen
    return {log.name: log.state_after(facts.get(log.name, LogFacts()), base, seen, commit) for log in choice.work.logs}


def _report(
    choice: Choice,
    log: LogWork,
    after: LogState,
    *,
    rows: int,
    size: int,
    files: int,
    tombstones: Sequence[int | None],
) -> LogReport:
    """Makes the report of one log before and after a pass.

    Args:
        choice: what becomes of each file.
        log: the log before the pass.
        after: the state that the pass leaves.
        rows: in the log's new files.
        size: of its new files, bytes.
        files: how many new files there are.
        tombstones: how many tombstones each of them has, None where they are not counted.
    """
    view = log.view
    hit = [f for f in view.files if f.path in choice.removed]
    left = [f for f in view.files if f.path not in choice.removed]
    dying = [choice.dead.files[f.path] for f in view.files if f.path in choice.dead.files]
    deleted = {f.path: len(choice.inputs.deleted.get(f.path, ())) for f in view.files}
    gone = {f.path: len(choice.hide[f.path]) if f.path in choice.hide else deleted[f.path] for f in left}
    waiting = [tombstones_below(left, after.checkpoint or 0), *tombstones]
    return LogReport(
        partition=view.partition,
        checkpoint_before=view.state.checkpoint,
        checkpoint_after=after.checkpoint,
        copied_to=log.copied_to,
        log_end=view.log_end,
        rows_before=view.rows - sum(deleted.values()),
        rows_after=sum(f.rows - gone[f.path] for f in left) + rows,
        bytes_before=view.bytes,
        bytes_after=sum(f.bytes for f in left) + size,
        bytes_read=sum(f.bytes for f in hit),
        bytes_written=size,
        latest_to=after.unseen.unseen_from if after.unseen else None,
        buffer_utilization_percent=log.buffer_utilization_percent,
        expired=log.expired,
        tombstones_waiting=None if None in waiting else sum(n or 0 for n in waiting),
        files_rewritten=len(hit),
        files_written=files,
        files_under_vectors=sum(f.path in choice.hide for f in left),
        files_left_alone=sum(f.path not in choice.hide for f in left),
        **{cause.name: sum(rows.causes.get(cause, 0) for rows in dying) for cause in CAUSES},
    )
