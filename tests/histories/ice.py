"""Iceberg in memory: pyiceberg's own metadata objects, manifests kept decoded, data files as tuples of rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from tests.histories import manifests

SCHEMA = Schema(
    NestedField(1, "partition", IntegerType(), required=True),
    NestedField(2, "offset", LongType(), required=True),
    NestedField(3, "timestamp", TimestamptzType()),
    NestedField(4, "key", BinaryType()),
    NestedField(5, "value", StringType()),
    NestedField(6, "ingested", LongType()),
)
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition"))


class Row(NamedTuple):
    """A row; the index of a cell is the field id of its column, and `rid` is the physical row's own name."""

    rid: int
    log: int
    offset: int
    ts: int | None
    key: str | None
    value: str | None
    ingested: int | None = None
    other: str | None = None

    @property
    def content(self) -> tuple[Any, ...]:
        """All columns but the ingestion time."""
        return self[1:6]


ON_READ = "merge-on-read"
HIDES = {
    "write.delete.mode": ON_READ, "hardpack.deletion.vector.min.bytes": "0",
    "hardpack.deletion.vector.max.ratio": "0.6",
}  # fmt: skip
"""Properties of a table on which passes hide rows while few of a file are dead."""


@dataclass
class Store:
    """The storage: what lies at which path. Nothing is in it twice, and only `delete` takes something away."""

    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    created: dict[str, int] = field(default_factory=dict)
    described: dict[str, DataFile] = field(default_factory=dict)
    footers: dict[str, dict[int, Any]] = field(default_factory=dict)
    """By path of a file of which the manifest is silent, what its footer tells."""
    kept_footers: dict[str, dict[str, dict[int, Any]]] = field(default_factory=dict)
    """What lies beside the table of footers that were read, by manifest."""
    positions: dict[str, dict[str, frozenset[int]]] = field(default_factory=dict)
    """By delete file the positions it names in data files."""
    manifests: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    live: dict[str, frozenset[str]] = field(default_factory=dict)
    """By manifest the paths of its living entries."""
    lists: dict[str, list[ManifestFile]] = field(default_factory=dict)
    number: int = 0
    reads_left: int | None = None
    """How often it may still be read before it answers no more; None while it is well."""

    def read(self) -> None:
        """Something is read.

        Raises:
            OSError: the storage does not answer.
        """
        if self.reads_left is not None:
            if self.reads_left == 0:
                raise OSError("the storage does not answer")
            self.reads_left -= 1

    def name(self) -> int:
        """The next number for a path, a row or a snapshot."""
        self.number += 1
        return self.number

    def delete(self, path: str) -> None:
        """Remove a data file from the storage."""
        self.files.pop(path, None)
        self.positions.pop(path, None)
        self.created.pop(path, None)
        self.footers.pop(path, None)


@dataclass(frozen=True)
class MemoryFile:
    """A file of which is known whether it is there; the rows of a data file lie in the store."""

    there: bool

    def exists(self) -> bool:
        return self.there

    def open(self, seekable: bool = True) -> Any:
        raise FileNotFoundError


class MemoryIO(FileIO):
    """Leads to the store; no bytes are read."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def new_input(self, location: str) -> Any:
        return MemoryFile(location in self.store.files)

    def new_output(self, location: str) -> Any:
        raise PermissionError(location)

    def delete(self, location: Any) -> None:
        raise PermissionError(str(location))


class Tab:
    """One table: its metadata and everything a writer does to it."""

    def __init__(
        self, name: str, store: Store, clock: int, version: int, properties: Mapping[str, str], by_log: bool = True,
        mute: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.store, self.io = name, store, MemoryIO(store)
        self.mute = mute
        """Whether others write manifests without bounds and counts, so that footers alone tell of their files."""
        place = f"mem://lake/{name}/{store.name()}"
        spec, properties = SPEC if by_log else PartitionSpec(), {**properties, "format-version": str(version)}
        self.meta: TableMetadata = new_table_metadata(
            SCHEMA, spec, UNSORTED_SORT_ORDER, place, properties, uuid.UUID(int=store.name())
        )
        self.meta = self.meta.model_copy(update={"last_updated_ms": clock})
        self.version = 0

    @property
    def by_log(self) -> bool:
        """Whether the table was made with a partition for each log; else bounds alone tell a file's log."""
        return bool(self.meta.partition_specs[0].fields)

    @property
    def place(self) -> str:
        """Where the current metadata would lie."""
        return f"{self.meta.location}/metadata/{self.version}.json"

    @property
    def current(self) -> Snapshot | None:
        return self.meta.current_snapshot()

    @property
    def adopted(self) -> bool:
        """Whether the table is a topic."""
        return "hardpack.cleanup.policy" in self.meta.properties

    def swap(self, meta: TableMetadata) -> None:
        """Make this the table's metadata."""
        self.meta = _update_table_metadata_log(meta, self.place, self.meta.last_updated_ms)
        self.version += 1

    def updated(self, *updates: Any) -> TableMetadata:
        """The metadata with some updates of pyiceberg's, not swapped yet."""
        context, meta = _TableMetadataUpdateContext(), self.meta
        for update in updates:
            meta = _apply_table_update(update, meta, context)
        return meta

    def entries(self, snapshot: Snapshot | None) -> list[ManifestEntry]:
        """The living entries of a snapshot's data files."""
        return [e for m in self._lists(snapshot, ManifestContent.DATA) for e in self.store.manifests[m.manifest_path]
                if e.status != ManifestEntryStatus.DELETED]  # fmt: skip

    def _lists(self, snapshot: Snapshot | None, content: ManifestContent) -> list[ManifestFile]:
        return [m for m in self.store.lists[snapshot.manifest_list] if m.content == content] if snapshot else []

    def paths(self, snapshot: Snapshot | None) -> list[str]:
        """The data files of a snapshot."""
        return [p for m in self._lists(snapshot, ManifestContent.DATA) for p in self.store.live[m.manifest_path]]

    @property
    def on_read(self) -> bool:
        """Whether passes may hide rows in the place of writing files anew."""
        return self.meta.format_version > 1 and self.meta.properties.get("write.delete.mode") == ON_READ

    def deletes(self, snapshot: Snapshot | None) -> dict[str, int]:
        """The delete files of a snapshot, and the sequence number of the commit that brought each."""
        entries = (e for m in self._lists(snapshot, ManifestContent.DELETES)
                   for e in self.store.manifests[m.manifest_path])  # fmt: skip
        return {
            e.data_file.file_path: e.file_sequence_number or 0
            for e in entries
            if e.status != ManifestEntryStatus.DELETED
        }

    def stored(self, snapshot: Snapshot) -> list[Row]:
        """All rows that lie in the data files of a snapshot, whatever hides them."""
        return [row for path in self.paths(snapshot) for row in self.store.files[path]]

    def hidden(self, snapshot: Snapshot | None) -> dict[str, frozenset[int]]:
        """Positions that position deletes took, by data file."""
        found: dict[str, frozenset[int]] = {}
        for manifest in self._lists(snapshot, ManifestContent.DELETES):
            for path in self.store.live[manifest.manifest_path]:
                for data, positions in self.store.positions[path].items():
                    found[data] = found.get(data, frozenset()) | positions
        return found

    def visible(self, snapshot: Snapshot | None) -> dict[str, list[Row]]:
        """The rows that a reader of the snapshot sees, by data file."""
        hidden = self.hidden(snapshot)
        return {
            path: [r for at, r in enumerate(self.store.files[path]) if path not in hidden or at not in hidden[path]]
            for path in sorted(self.paths(snapshot))
        }

    def logs(self, path: str) -> set[int]:
        """The logs that the rows of a data file are of."""
        return {r.log for r in self.store.files[path]}

    def took_mixed(self, snapshot: Snapshot) -> bool:
        """Whether a commit removed a file with rows of several logs."""
        before = self.meta.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        gone = set(self.paths(before)) - set(self.paths(snapshot))
        return any(len(self.logs(path)) > 1 for path in gone if path in self.store.files)

    def size(self, path: str) -> int:
        """Bytes of a data file."""
        return 100 + 50 * len(self.store.files[path])

    def bounded(self, path: str) -> bool:
        """Whether the metadata or the footer tells the file's offsets."""
        return 2 in self.store.described[path].lower_bounds or 2 in self.store.footers.get(path, ())

    def kept(self) -> dict[str, tuple[int, set[int]]]:
        """What of the table is in the storage: by data file when it was made and the rows in it."""
        mine = (p for p in self.store.files if p.startswith(self.meta.location))
        return {p: (self.store.created[p], {r.rid for r in self.store.files[p]}) for p in mine}

    def file(self, rows: Iterable[Row], clock: int, bounded: bool = True, ours: bool = False) -> DataFile:
        """A new data file; known to no snapshot yet. Unbounded it tells nothing of its offsets."""
        return manifests.data_file(self, tuple(rows), clock, bounded, self.mute and not ours)

    def build(
        self, clock: int, operation: str, add: Iterable[DataFile] = (), remove: Iterable[str] = (),
        extra: Mapping[str, str] | None = None, data_sequence: int | None = None, deletes: Iterable[DataFile] = (),
        merge: bool = False,
    ) -> Snapshot:  # fmt: skip
        """The snapshot that a commit makes on top of the current one; not swapped yet."""
        return manifests.build(
            self, clock, operation, list(add), frozenset(remove), extra or {}, data_sequence, list(deletes), merge
        )

    def publish(self, snapshot: Snapshot, properties: Mapping[str, str] | None = None) -> Snapshot:
        """Make a snapshot that was built on the current one the current one."""
        updates = [SetPropertiesUpdate(updates=dict(properties))] if properties else []
        reference = SetSnapshotRefUpdate.model_construct(
            action="set-snapshot-ref", ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=snapshot.snapshot_id,
            min_snapshots_to_keep=None, max_snapshot_age_ms=None, max_ref_age_ms=None,
        )  # fmt: skip
        added = AddSnapshotUpdate.model_construct(action="add-snapshot", snapshot=snapshot)
        self.swap(self.updated(added, reference, *updates))
        return snapshot

    def commit(self, clock: int, operation: str, **files: Any) -> Snapshot:
        """Build and publish."""
        return self.publish(self.build(clock, operation, **files))

    def set_properties(self, wanted: Mapping[str, str | None]) -> None:
        """Set properties, None to remove one."""
        kept = {k: v for k, v in self.meta.properties.items() if k not in wanted or wanted[k] is not None}
        kept |= {k: v for k, v in wanted.items() if v is not None}
        self.swap(self.meta.model_copy(update={"properties": kept}))


class Lake(NoopCatalog):
    """The catalog: tables by name, each commit a compare-and-set."""

    def __init__(self) -> None:
        super().__init__("lake", warehouse="mem://lake")
        self.clock: Any = lambda: 0
        """Tells the time at which a commit through the catalog is made, ms."""
        self.tabs: dict[str, Tab] = {}
        self.before_commit: list[Any] = []
        """Called once each, in turn, when hardpack is about to swap."""

    def load_table(self, identifier: Any) -> Table:
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        tab = self.tabs.get(name)
        if tab is None:
            raise NoSuchTableError(name)
        return Table(tuple(name.split(".")), tab.meta, tab.place, tab.io, self)

    def list_namespaces(self, namespace: Any = ()) -> list[Any]:
        return [("t",)]

    def list_tables(self, namespace: Any) -> list[Any]:
        return [tuple(name.split(".")) for name in self.tabs]

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        tab = self.tabs[".".join(table.name())]
        if tab.meta.format_version == 3:
            # as pyiceberg does
            raise NotImplementedError("Writing V3 is not yet supported")
        for requirement in requirements:
            requirement.validate(tab.meta)
        tab.swap(tab.updated(*updates))
        return CommitTableResponse.model_construct(metadata=tab.meta, metadata_location=tab.place)


def unfit(tab: Any) -> bool:
    """Whether a table may be refused as a whole.

    It is of format v1, never adopted, or has a role's column replaced.
    """
    return tab.meta.format_version == 1 or not tab.adopted or replaced(tab) or _was_replaced(tab)


def replaced(tab: Any) -> bool:
    """Whether another column has taken the place of `value`."""
    return _other_value(tab.meta.schema())


def _was_replaced(tab: Any) -> bool:
    """Whether the current snapshot was written while it had: Iceberg filters a snapshot by the names of its time."""
    schemas = {s.schema_id: s for s in tab.meta.schemas}
    return tab.current is not None and _other_value(schemas[tab.current.schema_id])


def _other_value(schema: Schema) -> bool:
    return any(f.name == "value" and f.field_id != 5 for f in schema.fields)
