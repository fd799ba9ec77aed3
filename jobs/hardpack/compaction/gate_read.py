"""Logs that need not be read again, as the gate has read every row of the files that they hold now.

A data file never changes under its name, so a second reading would tell the same under three conditions. The log holds
the files that its last gates read and left. It holds all files that stood when the passes were committed. All of its
other files were appended behind these.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.table import Table

from hardpack.compaction.last_passes import LastPass
from hardpack.compaction.ledger import Ledger
from hardpack.compaction.report import LogReport
from hardpack.rules.model import DataFile
from hardpack.rules.settings import Settings
from hardpack.table.log_views import read_logs

WITH_ROW_LINEAGE = 3
"""Format version from which on rows have a lineage, which can be read only from published files."""
MOST_LOOKS = 6
"""Most snapshots whose files are looked at; to look at more would take as long as to read rows."""


def with_gate_read(ledger: Ledger, format_version: int) -> tuple[LogReport, ...]:
    """Returns the report of each log with a fingerprint of the files that the pass leaves.

    It is for a pass whose gate has read every row. The fingerprint is empty where deletes lie on one of the files, and
    where new files have a row lineage.

    Args:
        ledger: of the pass.
        format_version: of the table.
    """
    choice, new = ledger.choice, ledger.staged.new_by_log
    with_deletes = choice.hide.keys() | choice.inputs.deletes.keys()
    logs = []
    for log, entry in zip(choice.work.logs, ledger.logs, strict=True):
        left = {f.path for f in log.view.files} - choice.removed
        comparable = not left & with_deletes and not (new[log.name] and format_version >= WITH_ROW_LINEAGE)
        name = fingerprint([*left, *(file.path for file in new[log.name])]) if comparable else ""
        logs.append(entry.model_copy(update={"gate_read": name}))
    return tuple(logs)


def fingerprint(paths: Iterable[str]) -> str:
    """Returns a short name for a set of files, 12 hexadecimal digits.

    Args:
        paths: in any order.
    """
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:12]


def stand_as_read(table: Table, settings: Settings, passes: Mapping[str, Sequence[LastPass]]) -> bool:
    """Returns whether the gates of each log's last passes read every row, and the log still stands as they read it.

    Args:
        table: as pyiceberg loaded it; only its metadata is read, and the storage is asked for files that passes wrote.
        settings: the table's.
        passes: the last passes of each log, the newest first.
    """
    if not passes or not all(_comparable(table, one) for own in passes.values() for one in own):
        return False
    # what the newest pass left has to stand now, and what an earlier one left has to be what the next one read
    pairs = [
        (log, one, after)
        for log, own in passes.items()
        for one, after in zip(own, [None, *(newer.base for newer in own[:-1])], strict=True)
    ]
    asked: defaultdict[int | None, set[str]] = defaultdict(set)
    for log, one, after in pairs:
        for snapshot in (after, one.base, one.parent) if one.parent != one.base else (after,):
            asked[snapshot].add(log)
    if len(asked) > MOST_LOOKS:
        return False
    looks = _Looks(table, settings, asked)
    return all(_stands(looks, log, one, after) for log, one, after in pairs)


def _comparable(table: Table, one: LastPass) -> bool:
    """Returns whether the gate read every row, and the snapshots around the pass can still be looked at."""
    around = (one.base, one.parent)
    return bool(one.did.gate_read) and all(at is not None and table.snapshot_by_id(at) for at in around)


class _Looks:
    """The files of a table's logs at some snapshots; each snapshot is read once, when it is asked for.

    Args:
        table: as pyiceberg loaded it.
        settings: the table's.
        asked: the logs that are wanted of each snapshot, by snapshot, None for the current one.
    """

    def __init__(self, table: Table, settings: Settings, asked: Mapping[int | None, set[str]]) -> None:
        self.table, self._settings, self._asked = table, settings, asked
        self._at: dict[int | None, dict[str, Sequence[DataFile]]] = {}

    def files(self, log: str, snapshot: int | None) -> Sequence[DataFile]:
        """Returns the files of a log at a snapshot."""
        if snapshot not in self._at:
            views = read_logs(self.table, self._settings, snapshot, partitions=self._asked[snapshot])
            self._at[snapshot] = {view.name: view.files for view in views}
        return self._at[snapshot].get(log, ())


def _stands(looks: _Looks, log: str, one: LastPass, after: int | None) -> bool:
    """Returns whether a log still has the files that a pass left, and those that came while the pass ran.

    Args:
        looks: the files of the table's logs.
        log: its name.
        one: the pass.
        after: a later snapshot, at which the log is looked at; None for the current one.
    """
    files = looks.files(log, after)
    if not holds_what_was_read(files, one.did):
        return False
    if one.parent != one.base:
        before = {file.path for file in looks.files(log, one.base)}
        came = {file.path for file in looks.files(log, one.parent)} - before
        if not came <= {file.path for file in files}:
            return False
    # another tool's orphan removal, or a lost upload, leaves no trace in metadata, so the storage is asked
    commit = looks.table.snapshot_by_id(one.made)
    written = (f.path for f in files if commit and f.file_sequence_number == commit.sequence_number)
    return all(looks.table.io.new_input(path).exists() for path in written)


def holds_what_was_read(files: Iterable[DataFile], did: LogReport) -> bool:
    """Returns whether a log still stands as a gate has read it.

    It then holds the files that the gate read, no row-level deletes, and otherwise only files behind its end of then.

    Args:
        files: of the log.
        did: the report of the pass whose gate read them.
    """
    all_files = list(files)
    read = (file.path for file in all_files if file.min_offset < did.log_end)
    return not any(file.row_deletes for file in all_files) and fingerprint(read) == did.gate_read
