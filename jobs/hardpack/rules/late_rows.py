"""Late rows: which of them no pass may clean before a person has looked at them, on plain data."""

from __future__ import annotations

from hardpack.rules.model import DataFile, LogView
from hardpack.rules.settings import Settings
from hardpack.rules.times import is_time


def waits_for_trust(log: LogView, settings: Settings) -> bool:
    """Returns whether a log has late rows that only a person can let in, and that nobody has trusted yet.

    Late rows below a removed tombstone do not count where `late.rows` is `refuse`, as trust does not let them in there.
    """
    return seem_of_another_topic(log) or (settings.late_rows != "refuse" and are_behind_tombstones(log))


def are_behind_tombstones(log: LogView) -> bool:
    """Returns whether untrusted late rows begin at or below the greatest offset of a removed tombstone.

    A tombstone that was removed can no longer delete a row that arrives after it with a smaller offset, so such a
    row would bring its key back (invariant 9).
    """
    return log.late_from is not None and log.late_from <= log.state.expired_to


def seem_of_another_topic(log: LogView) -> bool:
    """Returns whether untrusted late rows seem to be of a topic that was deleted and made anew.

    A broker gives out offsets in the order in which rows come, so a late row is about as old as its neighbours. A topic
    that is deleted and made anew begins at offset 0. Its first file then begins before all rows that passes have seen,
    and is newer than all of them. The old rows would win over the new ones, as their offsets are greater.
    """
    return _begins_anew(log) is not None


def why_of_another_topic(log: LogView) -> str:
    """Returns why neither a pass nor retention may touch a log that seems to hold two topics; empty when they may."""
    found = _begins_anew(log)
    if found is None:
        return ""
    first, newest = found
    deleted = f" (and tombstones up to {log.state.expired_to} are gone)" if are_behind_tombstones(log) else ""
    return (
        f"refused: the rows from offset {first.min_offset} on are of {first.min_timestamp} ms and later, all others of "
        f"{newest} ms and earlier, as where a topic was made anew, and old values would win over new ones{deleted}; "
        "delete the old topic's rows or, if it is one topic, resume with --trust-late-rows"
    )


def _begins_anew(log: LogView) -> tuple[DataFile, int] | None:
    """Returns the file with which another topic seems to begin, and the newest time, ms, of the rows from before it.

    Returns None when no other topic seems to begin.
    """
    if log.late_from is None:
        return None
    unseen, seen = list[DataFile](), list[DataFile]()
    for file in (*log.files, *log.packed):
        (seen if log.state.seen_commits.by_passes(file.file_sequence_number) else unseen).append(file)
    came, there = unseen, seen
    if not seen:
        # other writers have rewritten all rows from before, so no pass has seen those as they are now either. Rows at
        # or above the checkpoint are left out: they came in order, so they are newer
        below = max(log.state.checkpoint or 0, log.state.log_start or 0)
        unseen = [f for f in unseen if f.min_offset < below]
        unseen.sort(key=lambda f: (f.min_offset, -(f.min_timestamp or 0)))
        came, there = unseen[:1], [f for f in unseen[1:] if not _may_be_made_of(f, unseen[0])]
    newest = max((f.max_timestamp for f in there if is_time(f.max_timestamp)), default=None)
    if newest is None:
        return None
    start = min(f.min_offset for f in there)
    new = (f for f in came if f.min_offset <= start and f.file_sequence_number > log.state.trusted_to)
    return next(((f, newest) for f in new if f.min_timestamp is not None and f.min_timestamp > newest), None)


def _may_be_made_of(file: DataFile, earlier: DataFile) -> bool:
    """Returns whether a compaction may have put the rows of the earlier file into this one."""
    return (
        file.file_sequence_number > earlier.file_sequence_number
        and file.min_offset <= earlier.min_offset
        and file.max_offset >= earlier.max_offset
    )


def why_late_rows_refused(log: LogView, settings: Settings) -> str:
    """Returns why late rows cannot be cleaned again; empty when there are none or they can."""
    if log.late_from is None:
        return ""
    if settings.late_rows == "refuse":
        return f"refused: rows arrived late, the first at offset {log.late_from} (late.rows=refuse)"
    if are_behind_tombstones(log):
        return (
            f"refused: rows arrived at offset {log.late_from}, where tombstones up to {log.state.expired_to} have been "
            "removed, so a deleted key could come back; delete the rows, or resume with --trust-late-rows"
        )
    return ""
