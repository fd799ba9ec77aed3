"""Rows that came below a checkpoint: which of them nobody may clean before a person has looked, on plain data."""

from __future__ import annotations

from collections.abc import Sequence

from hardpack.rules.model import DataFile, LogView
from hardpack.rules.settings import Settings


def waits_for_trust(log: LogView, settings: Settings) -> bool:
    """Returns whether late rows are there that only a person can let in, and nobody has.

    Where `late.rows` is `refuse` no trust lets rows in behind which tombstones are gone.
    """
    return seem_of_another_topic(log) or (settings.late_rows != "refuse" and are_behind_tombstones(log))


def are_behind_tombstones(log: LogView) -> bool:
    """Returns whether rows arrived behind which tombstones are gone, and nobody has trusted them.

    A tombstone that was removed can no longer delete a row that arrives after it with a smaller offset, so such a
    row would bring its key back (invariant 9).
    """
    return log.late_from is not None and log.late_from <= log.state.expired_to


def seem_of_another_topic(log: LogView) -> bool:
    """Returns whether a file of late rows is newer than all rows behind its first one, and nobody has trusted it.

    A broker gives out offsets in the order in which rows come, so that a row which comes late is about as old as its
    neighbours. A topic that is deleted and made again begins at offset 0, with rows newer than any of the old topic's:
    by their offsets these would supersede the new ones. The files' bounds of timestamps tell it, so it is not seen
    where somebody has written old and new rows into one file.
    """
    if log.late_from is None:
        return False
    below = max(log.state.checkpoint or 0, log.state.log_start or 0)
    unseen, seen = list[DataFile](), list[DataFile]()
    for file in log.files:
        (seen if log.state.seen_commits.holds(file.file_sequence_number) else unseen).append(file)
    return any(
        _is_newer_than_all_behind(file, seen) or (not seen and _is_newer_than_all_behind(file, unseen))
        for file in unseen
        if log.state.trusted_to < file.file_sequence_number and file.min_offset < below
    )


def _is_newer_than_all_behind(file: DataFile, others: Sequence[DataFile]) -> bool:
    behind = (f for f in others if f is not file and f.timed and f.max_offset > file.min_offset)
    newest = max((f.max_timestamp for f in behind if f.max_timestamp is not None), default=None)
    return newest is not None and file.min_timestamp is not None and file.min_timestamp > newest


def why_of_another_topic(log: LogView) -> str:
    """Returns why neither a pass nor retention may touch rows of what seems to be two topics; empty where they may."""
    if not seem_of_another_topic(log):
        return ""
    return (
        f"refused: rows arrived at offset {log.late_from} that are newer than all rows behind them, as of a topic that "
        "was made anew, whose values would lose against old ones; delete the old topic's rows or, if it is one topic, "
        "resume with --trust-late-rows"
    )


def why_late_rows_refused(log: LogView, settings: Settings) -> str:
    """Returns why late rows cannot be cleaned again; empty when there are none or they can."""
    if log.late_from is None:
        return ""
    if settings.late_rows == "refuse":
        return f"refused: rows arrived below the checkpoint, the first at offset {log.late_from} (late.rows=refuse)"
    if are_behind_tombstones(log):
        return (
            f"refused: rows arrived at offset {log.late_from}, where tombstones up to {log.state.expired_to} have been "
            "removed, so a deleted key could come back; delete the rows, or resume with --trust-late-rows"
        )
    return ""
