"""Tables that neither Spark nor pyiceberg can read are refused when they are adopted, by a sentence; no JVM."""

import pytest
from hardpack.errors import BadInput
from hardpack.operations.adopt import adopt
from hardpack.table.readable import check_readable
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
)

from tests.samples import SCHEMA, new_table
from tests.topics import session_of

TOPIC = SCHEMA.fields[:5]
CLOCK = StructType(NestedField(81, "clock", TimeType(), required=False))
REFUSED = {
    "column 'clock' is time, with which": ("clock", TimeType()),
    "column 'inside.clock' is time, with which": ("inside", CLOCK),
    "column 'list.element' is timestamp_ns, with which": ("list", ListType(81, TimestampNanoType(), False)),
    "column 'at' is timestamptz_ns, with which": ("at", TimestamptzNanoType()),
    "column 'place' is geometry, with which": ("place", GeometryType()),
    "column 'place' is geography, with which": ("place", GeographyType()),
    "column '_file' has a name that Iceberg keeps": ("_file", StringType()),
    "column '_Deleted' has a name that Iceberg keeps": ("_Deleted", StringType()),
    "columns 'value' and 'Value' differ by the case": ("Value", StringType()),
}


def adopted(table, **changed):
    """Adopts a table whose metadata another engine would have changed so."""
    metadata = table.metadata.model_copy(update=changed)
    ToOutputFile.table_metadata(metadata, table.io.new_output(table.metadata_location), overwrite=True)
    return adopt(session_of(table.refresh()), {}, dry_run=True)


def with_column(name, kind):
    return {"schemas": [Schema(*TOPIC, NestedField(80, name, kind, required=False), schema_id=0)], "last_column_id": 89}


@pytest.mark.parametrize(("said", "column"), REFUSED.items(), ids=REFUSED)
def test_what_nothing_can_read_is_refused(catalog, said, column):
    with pytest.raises(BadInput, match=f"{said}.*expected"):
        adopted(new_table(catalog, schema=Schema(*TOPIC)), **with_column(*column))


def test_names_of_lineage_are_taken_in_format_v3_alone(catalog):
    table = new_table(catalog, schema=Schema(*TOPIC, NestedField(80, "_row_id", LongType(), required=False)))
    assert adopt(session_of(table), {}, dry_run=True).cleanup_policy == "compact"
    # pyiceberg makes no table of v3
    table.metadata = table.metadata.model_copy(update={"format_version": 3})
    with pytest.raises(BadInput, match="column '_row_id' has a name that Iceberg keeps"):
        check_readable(table)


def test_a_transform_that_nobody_knows_is_refused(catalog, monkeypatch):
    table = new_table(catalog, schema=Schema(*TOPIC))
    odd = PartitionSpec(PartitionField(5, 1001, UnknownTransform("h3[3]"), "odd"), spec_id=7)
    monkeypatch.setattr(type(table), "specs", lambda self: {7: odd})
    with pytest.raises(BadInput, match="partition field 'odd' has a transform that pyiceberg does not know"):
        adopt(session_of(table), {}, dry_run=True)
