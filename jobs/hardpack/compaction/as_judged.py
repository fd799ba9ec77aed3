"""Whether a published log is what the gate has read: the same files, so that no row has to be read again.

A data file never changes under its name. Where the gate of each last pass read every row, and the table holds the files
that it read and else only such as were appended behind them, reading them again would tell the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.table import Table

from hardpack.compaction.ledger import Ledger
from hardpack.compaction.report import LogReport
from hardpack.rules.model import DataFile
from hardpack.rules.settings import Settings
from hardpack.table.log_views import read_logs

LastPasses = Mapping[str, Sequence[tuple[int | None, int, LogReport]]]
"""By log its last passes, the newest first: the snapshot that each read, the one that it made, and what it did."""


def with_files_judged(ledger: Ledger) -> tuple[LogReport, ...]:
    """Returns what a pass did to each log, with the files that it leaves; for a gate that has read all of them.

    Args:
        ledger: the pass's accounts.
    """
    choice, new = ledger.choice, ledger.staged.new_by_log
    covered = choice.hide.keys() | choice.inputs.deletes.keys()
    logs = []
    for log, entry in zip(choice.work.logs, ledger.logs, strict=True):
        left = {f.path for f in log.view.files} - choice.removed
        judged = "" if left & covered else fingerprint([*left, *(file.path for file in new[log.name])])
        logs.append(entry.model_copy(update={"judged": judged}))
    return tuple(logs)


def fingerprint(paths: Iterable[str]) -> str:
    """Returns a short name of a set of files, 16 hexadecimal digits.

    Args:
        paths: in any order.
    """
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:16]


def as_judged(table: Table, settings: Settings, passes: LastPasses) -> set[str]:
    """Returns the logs of which the gates have read every row that could make a difference now.

    Args:
        table: as pyiceberg loaded it; only its metadata is read.
        settings: the table's.
        passes: the last ones of each log.
    """
    # of most tables some log was not read whole, so that no manifest is opened
    able = {name: own for name, own in passes.items() if own and all(entry.judged for _, _, entry in own)}
    looks: dict[int | None, dict[str, Sequence[DataFile]]] = {}

    def stands(name: str, entry: LogReport, snapshot: int | None) -> bool:
        if snapshot not in looks:
            views = read_logs(table, settings, snapshot, partitions=list(able))
            looks[snapshot] = {str(view.partition): view.files for view in views}
        return holds_what_was_judged(looks[snapshot].get(name, ()), entry)

    def untouched(name: str) -> bool:
        # what the newest one left stands now, and each began with what the one before it had left
        begun = [base for base, _, _ in able[name][:-1]]
        if any(base is None or table.snapshot_by_id(base) is None for base in begun):
            return False
        return all(stands(name, entry, at) for (_, _, entry), at in zip(able[name], [None, *begun], strict=True))

    return {name for name in able if untouched(name)}


def holds_what_was_judged(files: Iterable[DataFile], entry: LogReport) -> bool:
    """Returns whether a log holds the files that a gate has read, without deletes, and else only what came behind them.

    Args:
        files: of the log.
        entry: what the pass did, whose gate that was.
    """
    read = [file for file in files if file.min_offset < entry.log_end]
    return not any(f.row_deletes for f in read) and fingerprint(f.path for f in read) == entry.judged
