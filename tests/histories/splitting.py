"""The stand-in for a split: living rows in new files of the store, a file for each log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hardpack.errors import Conflict
from hardpack.spark.commit import CommitChange
from hardpack.table.history import SPLIT_SUMMARY


def read(session: Any, settings: Any, snapshot: int, paths: Any) -> Any:
    """The files of one commit, by path."""
    return SimpleNamespace(snapshot=snapshot, files=list(paths))


def split(session: Any, settings: Any, batch: Any) -> tuple[int, str, int]:
    """Take the files of one commit apart; gives how many were made, no page, and the snapshot."""
    snapshot, paths, jvm = batch.snapshot, batch.files, session.jvm
    tab, clock, new = jvm.tab, jvm.world.clock, list[Any]()
    shown = tab.visible(tab.meta.snapshot_by_id(snapshot))
    for rows in (shown[path] for path in paths):
        new += [tab.file([r for r in rows if r.log == log], clock, ours=True) for log in sorted({r.log for r in rows})]
    change = CommitChange(paths, new, lambda _: {}, {SPLIT_SUMMARY: str(snapshot)}, rewrites=True)
    try:
        return len(new), "", jvm.commit(snapshot, change)
    except Conflict:
        session.data_files(settings).discard(f.file_path for f in new)
        raise
