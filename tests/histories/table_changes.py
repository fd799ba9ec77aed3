"""What others do to a table that touches no row: schema, spec, format, manifests, references and expiry."""

from __future__ import annotations

import contextlib
from typing import Any

from hardpack.errors import HardpackError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.update import AddPartitionSpecUpdate, SetDefaultSpecUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import NestedField, StringType

from tests.histories.expiry import expire
from tests.histories.foreign import FOREIGN, foreign
from tests.histories.ice import Tab


@foreign
def evolve(world: Any, tab: Tab, what: str) -> None:
    """Change the schema: add a column, rename one without a role, or put a new column in the place of `value`."""
    fields = {f.field_id: f for f in tab.meta.schema().fields}
    if what == "add":
        number = max(20, tab.meta.last_column_id + 1)
        fields[number] = NestedField(number, f"more{number}", StringType())
    elif what == "rename":
        fields[6] = fields[6].model_copy(update={"name": f"ingested{world.store.name()}"})
    elif what == "replace" and 7 not in fields and tab.meta.format_version > 1:
        fields[5] = fields[5].model_copy(update={"name": "old_value"})
        fields[7] = NestedField(7, "value", StringType())
    elif what == "restore" and 7 in fields:
        del fields[7]
        fields[5] = fields[5].model_copy(update={"name": "value"})
    number = max(s.schema_id for s in tab.meta.schemas) + 1
    schema = Schema(*fields.values(), schema_id=number)
    last = max(tab.meta.last_column_id, *fields)
    changed = {"schemas": [*tab.meta.schemas, schema], "current_schema_id": number, "last_column_id": last}
    tab.swap(tab.meta.model_copy(update=changed))


@foreign
def respec(world: Any, tab: Tab) -> None:
    """A partition field is added beside the log's."""
    number = max(s.spec_id for s in tab.meta.partition_specs) + 1
    bucket = PartitionField(4, 1000 + number, BucketTransform(4), f"bucket{number}")
    spec = PartitionSpec(*tab.meta.partition_specs[0].fields[:1], bucket, spec_id=number)
    tab.swap(tab.updated(AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=number)))


@foreign
def upgrade(world: Any, tab: Tab, to: int) -> None:
    if tab.meta.format_version < to:
        later = tab.meta.model_copy(update={"format_version": to})
        refused = tab.meta.format_version == 1
        tab.swap(TableMetadataUtil._construct_without_validation(later))
        if refused:
            # a table with what no log may have is refused for as long as it has it
            with contextlib.suppress(HardpackError):
                world.hp.adopt(tab.name, world.adopted[tab.name])


@foreign
def foreign_expire(world: Any, tab: Tab, keep: int) -> None:
    """All but the newest snapshots expire at once."""
    expire(tab, world.clock + 10**12, keep)


@foreign
def rewrite_manifests(world: Any, tab: Tab) -> None:
    if tab.current:
        tab.commit(world.clock, "replace", merge=True)


@foreign
def refer(world: Any, tab: Tab, name: str, kind: str, pick: int = 0) -> None:
    """A branch or tag is made on a snapshot, or removed with kind `drop`."""
    refs = {k: v for k, v in tab.meta.refs.items() if k != name}
    if kind != "drop":
        if not tab.meta.snapshots:
            return
        one = tab.meta.snapshots[pick % len(tab.meta.snapshots)]
        refs[name] = SnapshotRef(snapshot_id=one.snapshot_id, snapshot_ref_type=kind)
    tab.swap(tab.meta.model_copy(update={"refs": refs}))


STEPS = FOREIGN
"""All that others do, by the name of the step: the above and what changes rows."""
