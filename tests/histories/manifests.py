"""Data files, manifests and snapshots as Iceberg writes them: statuses, sequence numbers, counts and bounds."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.typedef import Record

OPERATIONS = {o.value: o for o in Operation}


def data_file(tab: Any, rows: tuple[Any, ...], clock: int, bounded: bool, mute: bool) -> DataFile:
    store, logs = tab.store, [r.log for r in rows]
    rows = tuple(sorted(rows, key=lambda r: (r.offset, r.rid)))
    path = f"{tab.meta.location}/data/{store.name():06}.parquet"
    stamps = [r.ts * 1000 for r in rows if r.ts is not None]
    low, high = {1: struct.pack("<i", min(logs))}, {1: struct.pack("<i", max(logs))}
    if bounded:
        low[2], high[2] = struct.pack("<q", rows[0].offset), struct.pack("<q", rows[-1].offset)
    if stamps:
        low[3], high[3] = struct.pack("<q", min(stamps)), struct.pack("<q", max(stamps))
    nulls = {i: sum(r[i] is None for r in rows) for i in range(1, 8)}
    if mute:
        store.footers[path] = {i: (nulls[i], low.get(i), high.get(i)) for i in nulls if bounded or i != 2}
        low, high, nulls = {}, {}, {}
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=path, file_format=FileFormat.PARQUET, partition=_home(tab, logs[0]),
        record_count=len(rows), file_size_in_bytes=100 + 50 * len(rows), column_sizes={}, split_offsets=None,
        value_counts=dict.fromkeys(range(1, 8), len(rows)), nan_value_counts={}, lower_bounds=low, upper_bounds=high,
        null_value_counts=nulls,
    )  # fmt: skip
    file.spec_id = tab.meta.default_spec_id
    store.files[path], store.created[path], store.described[path] = rows, clock, file
    return file


DELETED_PATH = 2147483546
"""Field id of a data file's path in position deletes."""


def delete_file(tab: Any, log: int, positions: Mapping[str, frozenset[int]], clock: int) -> DataFile:
    """A position delete file; on several data files, as engines may write it."""
    path = f"{tab.meta.location}/data/{tab.store.name():06}-deletes.parquet"
    only = {DELETED_PATH: next(iter(positions)).encode()} if len(positions) == 1 else {}
    vector = bool(only) and tab.meta.format_version > 2
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=path,
        file_format=FileFormat.PUFFIN if vector else FileFormat.PARQUET, partition=_home(tab, log),
        record_count=sum(map(len, positions.values())), file_size_in_bytes=50, lower_bounds=only, upper_bounds=only,
    )  # fmt: skip
    file.spec_id = tab.meta.default_spec_id
    tab.store.positions[path], tab.store.created[path] = dict(positions), clock
    return file


def _home(tab: Any, log: int) -> Record:
    return Record(*[log if f.source_id == 1 else None for f in tab.meta.spec().fields])


def build(
    tab: Any, clock: int, operation: str, add: list[DataFile], remove: frozenset[str], extra: Mapping[str, str],
    data_sequence: int | None, deletes: list[DataFile], merge: bool,
) -> Snapshot:  # fmt: skip
    meta, store, parent = tab.meta, tab.store, tab.current
    number = store.name()
    sequence = 0 if meta.format_version == 1 else meta.last_sequence_number + 1
    writer = _Writer(tab, number, sequence)
    gone: list[DataFile] = []
    for manifest in store.lists[parent.manifest_list] if parent else ():
        gone += writer.keep(manifest, remove)
    if missing := remove - {f.file_path for f in gone}:
        raise LookupError(f"{len(missing)} files to remove are not there")
    written = sequence if data_sequence is None else data_sequence
    writer.add(add, ManifestContent.DATA, written)
    writer.add(deletes, ManifestContent.DELETES, sequence)
    if merge:
        writer.merge()
    store.lists[f"{number}.avro"] = writer.manifests
    before = dict(parent.summary.additional_properties) if parent and parent.summary else {}
    added, left = sum(f.record_count for f in add), sum(f.record_count for f in gone)
    hidden = sum(f.record_count for f in deletes)
    summary = {
        "added-data-files": str(len(add)), "deleted-data-files": str(len(gone)),
        "added-records": str(added), "deleted-records": str(left), "added-position-deletes": str(hidden),
        "total-records": str(int(before.get("total-records", 0)) + added - left),
        "total-data-files": str(int(before.get("total-data-files", 0)) + len(add) - len(gone)),
        "total-position-deletes": str(int(before.get("total-position-deletes", 0)) + hidden),
    }  # fmt: skip
    summary = {k: v for k, v in summary.items() if v != "0" or k.startswith("total-")}
    newest = max((s.timestamp_ms for s in meta.snapshots), default=0)
    lineage = {} if meta.format_version < 3 else {"first_row_id": meta.next_row_id or 0, "added_rows": added}
    return Snapshot(
        snapshot_id=number * 7919 + 10**6, parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=sequence, timestamp_ms=max(clock, newest + 1), manifest_list=f"{number}.avro",
        summary=Summary(OPERATIONS[operation], **summary, **extra), schema_id=meta.current_schema_id, **lineage,
    )  # fmt: skip


class _Writer:
    """The manifests of a snapshot to be."""

    def __init__(self, tab: Any, number: int, sequence: int) -> None:
        self.store, self.meta, self.sequence = tab.store, tab.meta, sequence
        self.snapshot = number * 7919 + 10**6
        self.manifests: list[ManifestFile] = []

    def keep(self, manifest: ManifestFile, remove: frozenset[str]) -> list[DataFile]:
        """Carry a manifest on without what is removed; gives that."""
        live = self.store.live[manifest.manifest_path]
        if not live:
            return []
        if not live & remove:
            self.manifests.append(manifest)
            return []
        entries, gone = [], []
        for old in self.store.manifests[manifest.manifest_path]:
            if old.status == ManifestEntryStatus.DELETED:
                continue
            out = old.data_file.file_path in remove
            status = ManifestEntryStatus.DELETED if out else ManifestEntryStatus.EXISTING
            by = self.snapshot if out else old.snapshot_id
            entries.append(ManifestEntry(status, by, old.sequence_number, old.file_sequence_number, old.data_file))
            gone += [old.data_file] if out else []
        self._write(entries, manifest.content, manifest.partition_spec_id)
        return gone

    def add(self, files: list[DataFile], content: ManifestContent, sequence: int) -> None:
        new = ManifestEntryStatus.ADDED
        if files:
            entries = [ManifestEntry(new, self.snapshot, sequence, self.sequence, file) for file in files]
            self._write(entries, content, self.meta.default_spec_id)

    def merge(self) -> None:
        """Put the data manifests of each spec into one, as a rewrite of manifests does."""
        data = [m for m in self.manifests if m.content == ManifestContent.DATA]
        self.manifests = [m for m in self.manifests if m.content != ManifestContent.DATA]
        for spec in sorted({m.partition_spec_id for m in data}):
            old = [e for m in data if m.partition_spec_id == spec for e in self.store.manifests[m.manifest_path]]
            there = ManifestEntryStatus.EXISTING
            entries = [
                ManifestEntry(there, e.snapshot_id, e.sequence_number, e.file_sequence_number, e.data_file)
                for e in old if e.status != ManifestEntryStatus.DELETED
            ]  # fmt: skip
            self._write(entries, ManifestContent.DATA, spec)

    def _write(self, entries: list[ManifestEntry], content: ManifestContent, spec: int) -> None:
        path = f"{self.meta.location}/metadata/{self.store.name():06}.avro"
        counts = {s: [e for e in entries if e.status == s] for s in ManifestEntryStatus}
        fields = next(s for s in self.meta.partition_specs if s.spec_id == spec).fields
        summaries = [PartitionFieldSummary(True, None, None, None)] * len(fields)
        if fields and fields[0].source_id == 1:
            logs = [e.data_file.partition[0] for e in entries]
            summaries[0] = PartitionFieldSummary(
                False, None, struct.pack("<i", min(logs)), struct.pack("<i", max(logs))
            )
        numbers = [
            n for s in (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
            for n in (len(counts[s]), sum(e.data_file.record_count for e in counts[s]))
        ]  # fmt: skip
        least = min(
            (e.sequence_number for e in entries if e.status != ManifestEntryStatus.DELETED), default=self.sequence
        )
        self.store.manifests[path] = entries
        living = (e.data_file.file_path for e in entries if e.status != ManifestEntryStatus.DELETED)
        self.store.live[path] = frozenset(living)
        self.manifests.append(
            ManifestFile(
                path, 100 * len(entries), spec, content, self.sequence, least, self.snapshot, *numbers[::2],
                *numbers[1::2], summaries, None,
            )
        )  # fmt: skip
