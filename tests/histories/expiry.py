"""Iceberg's expiry of snapshots and removal of orphan files, by what can be reached and what cannot."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table.snapshots import Snapshot

from tests.histories.ice import Tab


def lineage(tab: Tab, snapshot: int | None) -> Iterator[Snapshot]:
    """A snapshot and those before it, as far as they are known."""
    known = {s.snapshot_id: s for s in tab.meta.snapshots}
    at = known.get(snapshot or 0)
    while at is not None:
        yield at
        at = known.get(at.parent_snapshot_id or 0)


def expire(tab: Tab, older_than: int, retain_last: int) -> int:
    """Expire snapshots older than a time, as Iceberg's RemoveSnapshots does; how many files went.

    A branch keeps its newest ones, a tag its own. A snapshot that stays still names a parent that has gone.
    """
    meta = tab.meta
    kept: set[int] = {r.snapshot_id for r in meta.refs.values()}
    branched: set[int] = set()
    for ref in meta.refs.values():
        line = list(lineage(tab, ref.snapshot_id))
        branched |= {s.snapshot_id for s in line}
        if ref.snapshot_ref_type == "branch":
            for at, snapshot in enumerate(line):
                if at >= max(1, retain_last) and snapshot.timestamp_ms < older_than:
                    break
                kept.add(snapshot.snapshot_id)
    kept |= {s.snapshot_id for s in meta.snapshots if s.snapshot_id not in branched and s.timestamp_ms >= older_than}
    gone = [s for s in meta.snapshots if s.snapshot_id not in kept]
    if not gone:
        return 0
    left = [s for s in meta.snapshots if s.snapshot_id in kept]
    log = [entry for entry in meta.snapshot_log if entry.snapshot_id in kept]
    tab.swap(meta.model_copy(update={"snapshots": left, "snapshot_log": log}))
    dead = _files(tab, gone) - _files(tab, left)
    for path in dead:
        tab.store.delete(path)
    return len(dead)


def _files(tab: Tab, snapshots: list[Snapshot]) -> set[str]:
    lists = {m.manifest_path for s in snapshots for m in tab.store.lists[s.manifest_list]}
    return {path for manifest in lists for path in tab.store.live[manifest]}


def orphans(tab: Tab, older_than: int) -> list[str]:
    """Remove the files of the table that no snapshot knows of."""
    store, known = tab.store, _files(tab, list(tab.meta.snapshots))
    mine = [p for p in store.created if p.startswith(tab.meta.location) and p not in known]
    found = [p for p in mine if store.created[p] < older_than]
    for path in found:
        store.delete(path)
    return found


def referred(tab: Tab) -> set[str]:
    """Files that branches and tags other than main need."""
    known = referred_snapshots(tab)
    return _files(tab, [s for s in tab.meta.snapshots if s.snapshot_id in known])


def referred_snapshots(tab: Tab) -> set[int]:
    """Snapshots that branches and tags other than main need."""
    others = [r.snapshot_id for name, r in tab.meta.refs.items() if name != "main"]
    return {s.snapshot_id for other in others for s in lineage(tab, other)}
