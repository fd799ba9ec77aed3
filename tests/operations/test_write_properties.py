"""What a table asks of new files: done, or refused by name when it is adopted; no JVM."""

import pickle

import pyarrow.parquet as pq
import pytest
from hardpack.errors import BadInput
from hardpack.files.data_files import DataFiles
from hardpack.files.writer import write_files
from hardpack.operations.adopt import adopt
from hardpack.rules.settings import Settings
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform

from tests.files.test_data_files import refs, rows_in
from tests.topics import T0, append, name_of, new_topic, row, session_of

PARQUET = "write.parquet."


@pytest.fixture
def topic(catalog):
    def make(**properties):
        table = new_topic(catalog)
        append(table, {0: [row(o, f"k{o}") for o in range(5000)]})
        with table.transaction() as change:
            change.set_properties(properties)
        return table.refresh()

    return make


def rewritten(table):
    """The footer and entry of the table's file as hardpack writes it anew."""
    files, (ref,) = DataFiles.of(table, settings=Settings()), refs(table)
    (entry,) = (file.entry for file in write_files(files, files.read_whole(ref), ref, 10**9))
    assert len(rows_in(files, [entry])) == 5000
    return pq.ParquetFile(entry["file-path"].removeprefix("file://")), entry


def blooms(written):
    """Bytes of the Bloom filter of each column, None where there is none."""
    group = written[0].metadata.row_group(0)
    return [group.column(number).bloom_filter_length for number in range(group.num_columns)]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("write.location-provider.impl", "com.example.Places", "places files by write.data.path"),
        ("write.py-location-provider.impl", "os.Places", "runs no code"),
        ("write.folder-storage.path", "file:///tmp/x", "older name"),
        ("write.object-storage.path", "file:///tmp/x", "older name"),
        ("encryption.key-id", "key", "not encrypted"),
        ("write.wap.enabled", "true", "publishes to the main branch"),
        ("write.format.default", "orc", "set it to parquet"),
        (PARQUET + "compression-codec", "lzo", "expected one of brotli, gzip"),
        (PARQUET + "compression-level", "high", "expected a whole number from"),
        (PARQUET + "compression-level", "99", "expected a whole number from"),
        (PARQUET + "row-group-size-bytes", "128 MB", "expected a whole number from 1 to"),
        (PARQUET + "page-size-bytes", "0", "expected a whole number from 1 to"),
        (PARQUET + "page-row-limit", "-1", "expected a whole number from 1 to"),
        (PARQUET + "dict-size-bytes", "9" * 30, "expected a whole number from 1 to"),
        ("commit.retry.num-retries", "many", "expected a whole number from 0 to"),
        ("commit.retry.min-wait-ms", "-1", "expected a whole number from 0 to"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(topic, key, value, why):
    table = topic()
    # by another writer: pyiceberg would import a class that it finds here
    table.metadata.properties[key] = value
    with pytest.raises(BadInput, match=why) as refused:
        adopt(session_of(table), {}, dry_run=True)
    assert key in str(refused.value)
    assert str(refused.value).startswith(".".join(table.name()))


@pytest.mark.parametrize(
    "properties",
    [
        {"write.wap.enabled": "false", "write.format.default": "PARQUET", "write.object-storage.enabled": "true"},
        {PARQUET + "compression-codec": "SNAPPY", PARQUET + "compression-level": "high"},
        {PARQUET + "compression-codec": "zstd", PARQUET + "compression-level": "-3"},
        {PARQUET + "bloom-filter-enabled.column.key": "false", PARQUET + "bloom-filter-enabled.column.gone": "true"},
    ],
)
def test_what_can_be_honoured_is_adopted(topic, properties):
    adopt(session_of(topic(**properties)), {}, dry_run=True)


def test_a_sort_order_by_offset_is_named_in_new_files(topic):
    table = topic()
    assert "sort-order-id" not in rewritten(table)[1]
    with table.update_sort_order() as order:
        order.asc("partition", IdentityTransform()).asc("offset", IdentityTransform(), NullOrder.NULLS_FIRST)
    adopt(session_of(table.refresh()), {}, dry_run=True)
    assert rewritten(table)[1]["sort-order-id"] == table.sort_order().order_id == 1


@pytest.mark.parametrize(
    "by",
    [
        lambda order: order.asc("key", IdentityTransform()),
        lambda order: order.desc("offset", IdentityTransform()),
        lambda order: order.asc("key", IdentityTransform()).asc("offset", IdentityTransform()),
        lambda order: order.asc("offset", BucketTransform(4)),
    ],
    ids=["key", "falling", "behind the key", "bucket"],
)
def test_another_sort_order_is_refused(topic, by):
    table = topic()
    with table.update_sort_order() as order:
        by(order)
    with pytest.raises(BadInput, match=r"its sort order is not by 'offset'.*WRITE UNORDERED"):
        adopt(session_of(table.refresh()), {}, dry_run=True)
    assert "sort-order-id" not in rewritten(table)[1]


def test_a_branch_with_rows_of_its_own_is_refused(topic):
    table = topic()
    with table.transaction() as change:
        change.remove_properties("hardpack.cleanup.policy")
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    append(table, {0: [row(5000, "later")]})
    adopt(session_of(table.refresh()), {}, dry_run=True)
    rows = table.scan().to_arrow()
    table.append(rows.slice(0, 1), branch="audit")
    with pytest.raises(BadInput, match="branch 'audit' holds snapshots that main does not"):
        adopt(session_of(table.refresh()), {}, dry_run=True)


def test_a_property_chooses_no_code(topic):
    """A table's properties are written by whoever may change the table."""
    table = topic()
    table.metadata.properties["write.py-location-provider.impl"] = "tests.operations.test_write_properties.Planted"
    files = DataFiles.of(table)
    assert "/data/" in pickle.loads(pickle.dumps(files)).new_location("a.parquet")


class Planted:
    def __init__(self, *_):
        raise AssertionError("a property of a table was run")


@pytest.mark.spark
def test_a_place_that_was_set_after_adoption_runs_no_java_either(hp, topic):
    """Iceberg's Java loads the class where it asks a table for places, which hardpack's verbs never let it do."""
    table = topic(**{"hardpack.min.cleanable.dirty.ratio": "0", "hardpack.delete.retention.ms": "0"})
    append(table, {0: [row(5000 + o, f"k{o}", None) for o in range(9)]})
    append(table, {0: [row(5009, "end")]})
    hp.adopt(name_of(table))
    with table.refresh().transaction() as change:
        change.set_properties({"write.location-provider.impl": "com.example.NotThere"})
    assert hp.clean(hp.plan(name_of(table), T0)).logs[0].removed == 9
    assert hp.expire_tombstones(name_of(table), T0 + 1).logs[0].removed == 9
    hp.maintain(name_of(table), T0 + 2)
    assert hp.verify(name_of(table), T0 + 2).success


def test_row_groups_pages_and_codec_are_the_tables(topic):
    sizes = {"row-group-size-bytes": "40000", "page-row-limit": "100", "page-size-bytes": "2000"}
    parquet, _ = rewritten(
        topic(**{PARQUET + k: v for k, v in sizes.items()} | {PARQUET + "compression-codec": "gzip"})
    )
    assert parquet.metadata.num_row_groups > 2
    chunk = parquet.metadata.row_group(0).column(1)
    assert chunk.compression == "GZIP"
    assert chunk.has_offset_index
    assert chunk.has_column_index
    plain, _ = rewritten(topic())
    assert plain.metadata.num_row_groups == 1
    assert plain.metadata.row_group(0).column(1).compression == "ZSTD"


def test_bloom_filters_are_written_where_the_table_wants_them(topic):
    asked = {"enabled.column.key": "true", "ndv.column.key": "5000", "fpp.column.key": "0.01"}
    table = topic(**{f"{PARQUET}bloom-filter-{k}": v for k, v in asked.items()})
    adopt(session_of(table), {}, dry_run=True)
    # 5,000 values at one in a hundred take about 9.6 bits each, in the next power of two
    assert [length and length // 1024 for length in blooms(rewritten(table))] == [None, None, None, 8, None]
    assert blooms(rewritten(topic())) == [None] * 5


@pytest.mark.parametrize(("most", "bytes_of_it"), [(1024, 1024), (2000, 1024), (4096, 4096), (65536, 8192)])
def test_a_bloom_filter_is_no_larger_than_the_table_allows(topic, most, bytes_of_it):
    enabled = {f"{PARQUET}bloom-filter-enabled.column.key": "true", f"{PARQUET}bloom-filter-max-bytes": str(most)}
    # and no larger than its 5,000 values need; the header takes some bytes more
    assert blooms(rewritten(topic(**enabled)))[3] // 1024 == bytes_of_it // 1024


@pytest.mark.parametrize("chance", ["0", "1", "often", "nan"])
def test_a_chance_that_is_none_is_refused(topic, chance):
    key = f"{PARQUET}bloom-filter-fpp.column.key"
    table = topic(**{f"{PARQUET}bloom-filter-enabled.column.key": "true", key: chance})
    with pytest.raises(BadInput, match=f"{key} is '{chance}', expected a number between 0 and 1"):
        adopt(session_of(table), {}, dry_run=True)
