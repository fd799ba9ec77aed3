"""The manifests and data files of a table's current snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.manifest import DataFile as IceFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table


def manifests_of(table: Table) -> list[ManifestFile]:
    """Returns the manifests of the table's current snapshot; none of a table without one."""
    snapshot = table.current_snapshot()
    return snapshot.manifests(table.io) if snapshot else []


def data_entries(table: Table) -> Iterator[ManifestEntry]:
    """Yields the entry of every data file of the table's current snapshot."""
    for manifest in manifests_of(table):
        if manifest.content == ManifestContent.DATA:
            yield from manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def table_files(table: Table) -> Iterator[IceFile]:
    """Yields every data file of the table's current snapshot, as its manifests list it."""
    return (entry.data_file for entry in data_entries(table))
