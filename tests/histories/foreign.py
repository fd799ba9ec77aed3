"""What others do to a table: appenders, engines that rewrite, people who roll back, expire, truncate and alter.

Each function takes the world, the table and its arguments. Arguments are abstract, as a percentage or a number to
choose by, so that a step still means something when the steps before it are taken away.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from pyiceberg.manifest import ManifestContent
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot

from tests.histories.expiry import lineage
from tests.histories.ice import Row, Tab, replaced
from tests.histories.manifests import OPERATIONS, delete_file

Foreign = Callable[..., None]
FOREIGN: dict[str, Foreign] = {}


def foreign(function: Foreign) -> Foreign:
    """Make a function a step under its own name."""
    FOREIGN[function.__name__] = function
    return function


def _row(world: Any, tab: Tab, log: int, offset: int, key: str | None, kind: str, ts: Any = "now") -> Row:
    rid = world.store.name()
    stamp = world.clock if ts == "now" else ts
    value = None if kind == "tombstone" else f"v{rid}"
    row = Row(rid, log, offset, stamp, key, value, world.clock)
    return row._replace(value=None, other=value) if replaced(tab) else row


@foreign
def append(world: Any, tab: Tab, logs: dict[str, list[list[Any]]], chain: bool = False, bounded: bool = True) -> None:
    """In order, one file per log: each row is key, kind, distance from the row before and timestamp."""
    files = []
    for name, wanted in logs.items():
        log, rows = int(name), []
        last = world.last_row(tab, log)
        if chain and last is not None:
            rows.append(last._replace(rid=world.store.name()))
        for key, kind, gap, ts in wanted:
            world.ends[tab.name, log] = world.ends.get((tab.name, log), 3) + gap
            rows.append(_row(world, tab, log, world.ends[tab.name, log], key, kind, ts))
        files += [tab.file(rows, world.clock, bounded)] if rows else []
    world.oracles[tab.name].tells_late &= bounded
    if files:
        tab.commit(world.clock, "append", add=files)


@foreign
def mixed(world: Any, tab: Tab, rows: list[list[Any]]) -> None:
    """In order, but one file for two logs by turns, where no partition keeps them apart."""
    found = []
    for at, (key, kind, gap, ts) in enumerate(rows):
        log = at % 2
        world.ends[tab.name, log] = world.ends.get((tab.name, log), 3) + gap
        found.append(_row(world, tab, log, world.ends[tab.name, log], key, kind, ts))
    files = [[r for r in found if r.log == log] for log in (0, 1)] if tab.by_log else [found]
    tab.commit(world.clock, "append", add=[tab.file(some, world.clock) for some in files if some])


@foreign
def late(world: Any, tab: Tab, log: int, rows: list[list[Any]], beside: bool = False) -> None:
    """Rows at offsets that no row had, below the end of the log: each is a percentage of it, key and kind.

    They are as old as the row behind them, and may come in one file beside a row at the end of another log.
    """
    end, new, used = world.ends.get((tab.name, log), 3), [], world.used(tab, log)
    if beside and not tab.by_log:
        world.ends[tab.name, 1 - log] = world.ends.get((tab.name, 1 - log), 3) + 1
        new.append(_row(world, tab, 1 - log, world.ends[tab.name, 1 - log], "beside", "value"))
    for percent, key, kind in rows:
        free = [o for o in range(end * percent // 100, -1, -1) if o not in used] or [
            o for o in range(end) if o not in used
        ]
        if free:
            used.add(free[0])
            new.append(_row(world, tab, log, free[0], key, kind, _time_at(world, tab, log, free[0])))
    if new:
        tab.commit(world.clock, "append", add=[tab.file(new, world.clock)])


@foreign
def remake(world: Any, tab: Tab, log: int, rows: list[list[Any]]) -> None:
    """The topic is deleted and made again, and the sink goes on in the table that has the old one's rows.

    Each row is key and kind. They stand at offsets from 0 on that no row had, and are newer than any row before; where
    the old topic had begun there too their offsets would be in dispute.
    """
    used, newest = world.used(tab, log), max((r.ts or 0 for r in world.written[tab.name]), default=0)
    free = (o for o in itertools.count() if o not in used)
    now = max(world.clock, newest + 1)
    new = [_row(world, tab, log, offset, key, kind, now) for offset, (key, kind) in zip(free, rows, strict=False)]
    if used and new[0].offset < min(used):
        tab.commit(world.clock, "append", add=[tab.file(new, world.clock)])
        world.look(tab.name)
        world.oracles[tab.name].remade(tab.meta.current_snapshot_id, log, new)


def _time_at(world: Any, tab: Tab, log: int, offset: int) -> int | None:
    """When the broker had a row: what row stands behind it came no earlier."""
    behind = [r for r in world.written[tab.name] if r.log == log and r.offset > offset]
    return min(behind, key=lambda r: r.offset).ts if behind else world.clock


@foreign
def redeliver(world: Any, tab: Tab, log: int, percent: int, number: int, ingested: bool = False) -> None:
    """Rows that were written once are written again, perhaps with another ingestion time."""
    known = sorted((r for r in world.written[tab.name] if r.log == log), key=lambda r: r.offset)
    start = len(known) * percent // 100
    again = {r.offset: r for r in known[start : start + number]}
    time = {"ingested": world.clock + 1} if ingested else {}
    rows = [r._replace(rid=world.store.name(), **time) for r in again.values()]
    if rows:
        tab.commit(world.clock, "append", add=[tab.file(rows, world.clock)])


@foreign
def negative(world: Any, tab: Tab, log: int, key: str) -> None:
    """A row with offset -1, as a source writes that has none."""
    tab.commit(world.clock, "append", add=[tab.file([_row(world, tab, log, -1, key, "value")], world.clock)])


@foreign
def binpack(
    world: Any, tab: Tab, mode: str, share: int, by_key: bool = False, logs: list[int] | None = None,
    across: bool = False,
) -> None:  # fmt: skip
    """Some or all files become one per log, or two by key; `mode` is starting (sequence number), replace, overwrite.

    With `across`, where no partition keeps logs apart, they become one file.
    """
    shown = tab.visible(tab.current)
    chosen = {p: rows for at, (p, rows) in enumerate(shown.items()) if (at * 37 + 13) % 100 < share}
    chosen = {p: r for p, r in chosen.items() if logs is None or tab.logs(p) & set(logs)}
    by_log: dict[Any, list[Row]] = {}
    for rows in chosen.values():
        for row in rows:
            half = (row.key or "") > "b" if by_key else False
            by_log.setdefault((0 if across and not tab.by_log else row.log, half), []).append(row)
    if not chosen:
        return
    sequence = tab.meta.last_sequence_number if mode == "starting" else None
    files = [tab.file(rows, world.clock) for _, rows in sorted(by_log.items())]
    operation = "overwrite" if mode == "overwrite" else "replace"
    tab.commit(world.clock, operation, add=files, remove=chosen, data_sequence=sequence)


def _rewrite(world: Any, tab: Tab, change: Callable[[Row], Row | None], operation: str = "overwrite") -> None:
    """Copy-on-write: files with a row that changes are written anew."""
    remove, add = [], []
    for path, rows in tab.visible(tab.current).items():
        after = [change(r) for r in rows]
        if after != rows:
            remove.append(path)
            left = [r for r in after if r is not None]
            add += [tab.file(left, world.clock)] if left else []
    if remove:
        tab.commit(world.clock, operation if add else "delete", add=add, remove=remove)


@foreign
def update(world: Any, tab: Tab, column: str, key: str | None = None, to: Any = None, log: int | None = None) -> None:
    """UPDATE of the rows of a key, or of all rows; of a column that has no role rows remain the same."""

    def change(row: Row) -> Row:
        if (key is not None and row.key != key) or (log is not None and row.log != log):
            return row
        if column == "ingested":
            return row._replace(ingested=world.clock)
        changed = row._replace(**{column: to})
        return row if changed == row else changed._replace(rid=world.store.name())

    _rewrite(world, tab, change)


@foreign
def merge(world: Any, tab: Tab, log: int, key: str, rows: list[list[Any]], together: bool = False) -> None:
    """MERGE: rows of a key get another value and rows are inserted behind the end, in one copy-on-write commit.

    Put together, the new rows are in the last file of old ones, as one task of a writer leaves them.
    """
    shown = tab.visible(tab.current)
    remove = [path for path, found in shown.items() if any(r.key == key and r.log == log for r in found)]

    def updated(row: Row) -> Row:
        return row._replace(rid=(n := world.store.name()), value=f"m{n}") if row.key == key else row

    changed = [[updated(row) for row in shown[path]] for path in remove]
    inserted = []
    # after a rollback the rows that are there may end behind those that the source wrote last
    last = world.last_row(tab, log)
    end = max(world.ends.get((tab.name, log), 3), last.offset if last else 3)
    for name, kind, gap, ts in rows:
        world.ends[tab.name, log] = end = end + gap
        inserted.append(_row(world, tab, log, end, name, kind, ts))
    if together and changed:
        changed[-1] += inserted
    elif inserted:
        changed.append(inserted)
    if add := [tab.file(found, world.clock) for found in changed]:
        tab.commit(world.clock, "overwrite" if remove else "append", add=add, remove=remove)


@foreign
def delete(
    world: Any, tab: Tab, key: str | None, log: int | None = None, percent: int = 100, on_read: bool = False
) -> None:
    """DELETE of the rows of a key up to a percentage of the log, copy-on-write or by position deletes."""

    def goes(row: Row) -> bool:
        end = world.ends.get((tab.name, row.log), 3) * percent // 100
        return row.key == key and (log is None or row.log == log) and row.offset <= end

    if not on_read or tab.meta.format_version == 1:
        _rewrite(world, tab, lambda row: None if goes(row) else row)
        return
    hidden, files = tab.hidden(tab.current), []
    by_log: dict[int, dict[str, frozenset[int]]] = {}
    for path in sorted(tab.paths(tab.current)):
        took = hidden.get(path, frozenset())
        at = frozenset(i for i, r in enumerate(tab.store.files[path]) if i not in took and goes(r))
        if at:
            by_log.setdefault(tab.store.files[path][0].log, {})[path] = at
    files = [delete_file(tab, name, positions, world.clock) for name, positions in by_log.items()]
    if files:
        tab.commit(world.clock, "delete", deletes=files)


@foreign
def update_on_read(world: Any, tab: Tab, across: bool, by_file: bool = False) -> None:
    """UPDATE of all rows in a column without a role, merge-on-read: deletes on the old files, the rows in new ones.

    With `by_file` each data file has deletes of its own, which name the earlier ones' rows again and take their place.
    """
    if tab.meta.format_version == 1:
        return
    hidden, by_log = tab.hidden(tab.current), dict[int, dict[str, frozenset[int]]]()
    moved: dict[int, list[Row]] = {}
    for path in sorted(tab.paths(tab.current)):
        rows, took = tab.store.files[path], hidden.get(path, frozenset())
        at = frozenset(range(len(rows))) - took
        if at:
            by_log.setdefault(rows[0].log, {})[path] = at
        for row in (rows[n] for n in sorted(at)):
            moved.setdefault(-1 if across and not tab.by_log else row.log, []).append(
                row._replace(ingested=world.clock)
            )
    old = _deletes_of_one_file(tab) if by_file else {}
    if by_file:
        named = {path: frozenset().union(*(tab.store.positions[p][path] for p in of)) for path, of in old.items()}
        each = [(log, {p: at | named.get(p, frozenset())}) for log, of in by_log.items() for p, at in of.items()]
    else:
        each = list(by_log.items())
    deletes = [delete_file(tab, log, positions, world.clock) for log, positions in each]
    if deletes:
        add = [tab.file(rows, world.clock) for rows in moved.values()]
        left = [one for _, positions in each for path in positions for one in old.get(path, ())]
        tab.commit(world.clock, "overwrite", add=add, deletes=deletes, remove=left)


def _deletes_of_one_file(tab: Tab) -> dict[str, list[str]]:
    """Returns by data file the position deletes and vectors that are its alone."""
    found: dict[str, list[str]] = {}
    for manifest in tab._lists(tab.current, ManifestContent.DELETES):
        for deletes in tab.store.live[manifest.manifest_path]:
            path, *more = tab.store.positions[deletes]
            if not more:
                found.setdefault(path, []).append(deletes)
    return found


@foreign
def drop_hidden(world: Any, tab: Tab) -> None:
    """A compaction of others that drops the files of which row-level deletes hide every row, and adds none."""
    hidden = tab.hidden(tab.current)
    gone = [p for p in tab.paths(tab.current) if len(hidden.get(p, ())) == len(tab.store.files[p])]
    if gone:
        tab.commit(world.clock, "replace", remove=gone)


@foreign
def insert_overwrite(world: Any, tab: Tab, log: int | None, rows: list[list[Any]], from_start: bool = True) -> None:
    """INSERT OVERWRITE with other rows, of one log (dynamic) or of all."""
    gone = [p for p in tab.paths(tab.current) if log is None or log in tab.logs(p)]
    logs = {each for p in gone for each in tab.logs(p)} if log is None else {log}
    shown = tab.visible(tab.current)
    others = [[r for r in shown[p] if r.log not in logs] for p in gone]
    files = [tab.file(rows, world.clock) for rows in others if rows]
    for name in sorted(logs):
        if from_start:
            world.ends[tab.name, name] = 3
            world.written[tab.name] = [r for r in world.written[tab.name] if r.log != name]
        new = []
        for key, kind, gap, ts in rows:
            world.ends[tab.name, name] = world.ends.get((tab.name, name), 3) + gap
            new.append(_row(world, tab, name, world.ends[tab.name, name], key, kind, ts))
        files += [tab.file(new, world.clock)] if new else []
    if files or gone:
        tab.commit(world.clock, "overwrite" if files else "delete", add=files, remove=gone)


@foreign
def truncate(world: Any, tab: Tab) -> None:
    if gone := tab.paths(tab.current):
        tab.commit(world.clock, "delete", remove=gone)


@foreign
def recreate(world: Any, tab: Tab) -> None:
    """The table is dropped and made again, empty and adopted with the same settings."""
    world.create(tab.name, tab.meta.format_version, tab.by_log, tab.mute, tab.on_read)


@foreign
def replace_table(world: Any, tab: Tab, share: int) -> None:
    """CREATE OR REPLACE TABLE, as a SELECT of so many hundredths of its rows: the properties and snapshots stay."""
    rows = sorted((row for found in tab.visible(tab.current).values() for row in found), key=lambda row: row.rid)
    refs = {name: ref for name, ref in tab.meta.refs.items() if name != "main"}
    tab.swap(tab.meta.model_copy(update={"current_snapshot_id": None, "refs": refs}))
    world.oracles[tab.name].replaced()
    kept = rows[: len(rows) * share // 100]
    if kept:
        files = [tab.file([r for r in kept if r.log == log], world.clock) for log in sorted({r.log for r in kept})]
        tab.commit(world.clock, "append", add=files)


def _point(world: Any, tab: Tab, snapshot: Snapshot) -> None:
    main = SnapshotRef(snapshot_id=snapshot.snapshot_id, snapshot_ref_type="branch")
    tab.swap(
        tab.meta.model_copy(
            update={"current_snapshot_id": snapshot.snapshot_id, "refs": {**tab.meta.refs, "main": main}}
        )
    )


@foreign
def rollback(world: Any, tab: Tab, back: int) -> None:
    """To an older snapshot of the line."""
    line = list(lineage(tab, tab.meta.current_snapshot_id))
    if len(line) > 1:
        _point(world, tab, line[min(back, len(line) - 1)])


@foreign
def set_snapshot(world: Any, tab: Tab, pick: int) -> None:
    """To any snapshot there is, so also forward again or to an undone branch of the history."""
    if not tab.meta.snapshots:
        return
    target = tab.meta.snapshots[pick % len(tab.meta.snapshots)]
    if tied(tab.meta, target.snapshot_id):
        _point(world, tab, target)


def tied(meta: Any, target: int) -> bool:
    """Whether it can be told how a snapshot is tied to the current one: a limit that docs/limits.md names."""
    parents = {s.snapshot_id: s.parent_snapshot_id for s in meta.snapshots}

    def line(at: int | None) -> set[int | None]:
        found = set[int | None]()
        while at in parents:
            found.add(at)
            at = parents[at]
        return found | {at}

    return bool(line(target) & line(meta.current_snapshot_id))


@foreign
def cherry_pick(world: Any, tab: Tab, pick: int) -> None:
    """An append that is not in the line is applied to it."""
    line = {s.snapshot_id for s in lineage(tab, tab.meta.current_snapshot_id)}
    others = [
        s for s in tab.meta.snapshots if s.snapshot_id not in line and s.summary.operation == OPERATIONS["append"]
    ]
    if not others:
        return
    one = others[pick % len(others)]
    if one.parent_snapshot_id == tab.meta.current_snapshot_id:
        _point(world, tab, one)
        return
    files = [e.data_file for e in tab.entries(one) if e.snapshot_id == one.snapshot_id and e.status.name == "ADDED"]
    there = {r.rid for rows in tab.visible(tab.current).values() for r in rows}
    picked = [f for f in files if not there & {r.rid for r in tab.store.files[f.file_path]}]
    if picked:
        tab.commit(world.clock, "append", add=picked, extra={"source-snapshot-id": str(one.snapshot_id)})
