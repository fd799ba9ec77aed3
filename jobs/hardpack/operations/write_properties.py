"""Checks at adoption that a rewrite can honour a table's write properties; refuses by name those that it cannot."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from hardpack.errors import BadInput
from hardpack.files.writer import group_limits, parquet_options
from hardpack.rules.settings import Settings
from hardpack.spark.commit import commit_tries
from hardpack.table.columns import by_offset, is_topic, table_name
from hardpack.table.history import ancestors

REFUSED = {
    "write.location-provider.impl": "hardpack places files by write.data.path and write.object-storage.enabled alone",
    "write.py-location-provider.impl": "hardpack runs no code that a table's properties name",
    "write.folder-storage.path": "the older name is not read, write.data.path is",
    "write.object-storage.path": "the older name is not read, write.data.path is",
    "encryption.key-id": "hardpack would write data files that are not encrypted",
}
"""Properties that may not be set, and why."""
WAP = "write.wap.enabled"
FORMAT = "write.format.default"


def check_honoured(table: Table, settings: Settings) -> None:
    """Checks that new files can be what the table's properties, sort order and branches ask for.

    Args:
        table: as pyiceberg loaded it.
        settings: the table's, which name the columns of log and offset.

    Raises:
        BadInput: the table asks for something that a rewrite would ignore; the error names the first such thing.
    """
    name, properties = table_name(table), table.properties
    for key in REFUSED.keys() & properties.keys():
        raise BadInput(f"{name}: {key} is set, but {REFUSED[key]}; remove the property.")
    if properties.get(WAP, "").lower() == "true":
        raise BadInput(
            f"{name}: {WAP} is true, but hardpack publishes to the main branch once its own gate has passed; set it to "
            "false."
        )
    if (written := properties.get(FORMAT, "parquet").lower()) != "parquet":
        raise BadInput(
            f"{name}: {FORMAT} is {written}, but hardpack reads and writes Parquet alone; set it to parquet."
        )
    parquet_options(name, table.schema(), properties)
    group_limits(name, properties)
    commit_tries(name, properties)
    if not table.sort_order().is_unsorted and not by_offset(table, settings):
        raise BadInput(
            f"{name}: its sort order is not by {settings.column_offset!r}, but hardpack writes the rows of a log by "
            f"offset; use ALTER TABLE … WRITE ORDERED BY {settings.column_offset}, or WRITE UNORDERED."
        )
    if not is_topic(table):
        # a branch that was made after the adoption is no reason to refuse a change of settings
        _check_branches(name, table)


def _check_branches(name: str, table: Table) -> None:
    """Refuses a table with a branch that holds snapshots which main does not.

    A sink may commit to such a branch, and passes clean main alone.
    """
    past = {snapshot.snapshot_id for snapshot in ancestors(table)}
    for branch, ref in sorted(table.metadata.refs.items()):
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH and ref.snapshot_id not in past:
            raise BadInput(
                f"{name}: branch {branch!r} holds snapshots that main does not, but hardpack cleans main alone; fast-"
                "forward main to the branch, or drop it."
            )
