"""The stand-in for a split: living rows in new files of the store, a file for each log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hardpack.errors import Conflict
from hardpack.spark.commit import CommitChange
from hardpack.table.history import SPLIT_SUMMARY, WHOLE

from tests.histories.expiry import lineage
from tests.histories.manifests import OPERATIONS


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
    whole = WHOLE if _appended(tab, snapshot, set(paths)) else ""
    change = CommitChange(paths, new, lambda _: {}, {SPLIT_SUMMARY: f"{whole}{snapshot}"}, rewrites=True)
    try:
        return len(new), "", jvm.commit(snapshot, change).id
    except Conflict:
        session.data_files(settings).discard(f.file_path for f in new)
        raise


def _appended(tab: Any, snapshot: int, paths: set[str]) -> bool:
    """Whether appends that are still known brought all rows of the files, and nobody has hidden any since."""
    known = {s.sequence_number for s in lineage(tab, snapshot) if s.summary.operation == OPERATIONS["append"]}
    base = tab.meta.snapshot_by_id(snapshot)
    came = [e.file_sequence_number for e in tab.entries(base) if e.data_file.file_path in paths]
    return known.issuperset(came) and not any(tab.hidden(base).get(path) for path in paths)
