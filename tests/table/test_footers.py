"""Files of which the manifest does not tell: what their footers say, how that is kept, and what if it is lost."""

import gzip
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack import BadInput
from hardpack.rules.reference.cleaner import Row
from hardpack.rules.settings import Settings
from hardpack.table.columns import settings_of
from hardpack.table.footers import FOLDER, Footers, _column_facts
from hardpack.table.log_views import read_logs
from hardpack.table.manifests import ManifestReader, _bounds, _FileFacts
from hardpack.table.schema_columns import LogColumn, find_column
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestampType

from tests.layouts import HOURLY, LAYOUTS, NESTED, PLAIN, mapped
from tests.topics import T0, append, name_of, new_topic, row

_names = count()


def log(*keys, start=0):
    return [
        Row(start + n, k.rstrip("-").encode() if k else None, None if k.endswith("-") else b"v", timestamp=T0 + n)
        for n, k in enumerate(keys)
    ]


def made(catalog, layout, bounds):
    table = layout.adopted(catalog, f"foot.t{next(_names)}")
    layout.append(table, {0: log("a", "b-", ""), 3: log("x", "x", start=7)}, bounds=bounds)
    layout.append(table, {0: log("c-", "d-", start=3)}, bounds=bounds)
    return table.refresh()


def told(table, layout):
    """What is known of each log's files but for their names and sizes."""
    return {
        v.partition: [
            (f.rows, f.min_offset, f.max_offset, f.min_timestamp, f.max_timestamp, f.tombstones, f.null_keys, f.trouble)
            for f in v.files
        ]
        for v in read_logs(table, mapped(layout))
    }


def kept(table):
    return sorted(Path(table.location().removeprefix("file://"), FOLDER).glob("*"))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_footers_tell_what_manifests_would(catalog, layout):
    with_bounds, without = made(catalog, layout, True), made(catalog, layout, False)
    assert told(without, layout) == told(with_bounds, layout)
    # a name that bounds may have cut is looked up too
    assert (len(kept(without)), len(kept(with_bounds))) == (2, 2 if layout.topics else 0)


def test_a_footer_is_read_once(catalog, monkeypatch):
    table, reads = made(catalog, NESTED, False), []
    real = Footers._read
    monkeypatch.setattr(Footers, "_read", lambda self, path, known: reads.append(path) or real(self, path, known))
    first = told(table, NESTED)
    assert len(reads) == len(set(reads)) == 3
    assert told(table, NESTED) == first
    assert len(reads) == 3
    NESTED.append(table, {0: log("z", start=9)}, bounds=False)
    told(table.refresh(), NESTED)
    assert len(reads) == 4


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"no gzip"),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(gzip.compress(b'{"of": [0], "files": {}}')),
        lambda path: path.write_bytes(
            gzip.compress(gzip.decompress(path.read_bytes()).replace(b'"manifest": "', b'"manifest": "x'))
        ),
    ],
    ids=["gone", "no gzip", "cut", "older", "of another manifest"],
)
def test_what_is_kept_may_be_lost_or_damaged(catalog, harm):
    table = made(catalog, HOURLY, False)
    first = told(table, HOURLY)
    sizes = [path.stat().st_size for path in kept(table)]
    for path in kept(table):
        harm(path)
    assert told(table, HOURLY) == first
    assert [path.stat().st_size for path in kept(table)] == sizes


def test_who_may_only_read_the_table_looks_anew(catalog, monkeypatch):
    table = made(catalog, NESTED, False)
    monkeypatch.setattr(type(table.io), "new_output", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert told(table, NESTED)[0][0][:3] == (3, 0, 2)
    assert kept(table) == []


def test_a_manifest_that_speaks_is_believed(catalog, monkeypatch):
    """A footer fills in what the manifest leaves out, and nothing else."""
    table = new_topic(catalog)
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.column.offset": "none"})
    append(table, {0: [row(3, "a"), row(5, "b")]})
    monkeypatch.setattr(
        Footers, "_read", lambda *_: {2: (0, (3).to_bytes(8, "little"), (5).to_bytes(8, "little")), 3: (9, b"", b"")}
    )
    (view,) = read_logs(
        table.refresh(),
        mapped(LAYOUTS[0]).model_copy(
            update=dict.fromkeys(("column_producer_id", "column_transactional", "column_control", "column_batch"))
        ),
    )
    assert [(f.min_offset, f.max_offset, f.min_timestamp) for f in view.files] == [(3, 5, T0)]


def test_a_file_that_is_gone_is_named(cold, catalog):
    table = made(catalog, HOURLY, False)
    paths = [Path(t.file.file_path.removeprefix("file://")) for t in table.scan().plan_files()]
    # the one file of log 3
    next(p for p in paths if pq.read_table(p)["redpanda"][0]["partition"].as_py() == 3).unlink()
    with pytest.raises(BadInput, match=r"the footer of data file .* cannot be read, which would tell its log"):
        cold.plan(name_of(table), T0)


def test_other_columns_are_asked_for_anew(catalog):
    table = made(catalog, NESTED, False)
    first = told(table, NESTED)
    other = mapped(NESTED).model_copy(update={"tombstone": "none"})
    reader = ManifestReader(table, other)
    manifest = table.current_snapshot().manifests(table.io)[0]
    assert all(
        file.tombstones == 0
        for found in reader.files([manifest]).values()
        for files in found.values()
        for file in files
    )
    assert told(table, NESTED) == first


def test_a_file_of_an_odd_schema_troubles_its_log_alone(cold, catalog):
    """Only the columns asked for are looked at; one without an id that no name mapping knows tells nothing."""
    table = PLAIN.adopted(catalog, f"foot.t{next(_names)}")
    PLAIN.append(table, {0: log("a"), 1: log("a")}, bounds=False)
    odd = next(t.file.file_path for t in table.refresh().scan().plan_files() if t.file.partition[0] == 1)
    path = odd.removeprefix("file://")
    found = pq.read_table(path)
    more = found.append_column("hour", pa.array([1] * len(found), pa.time32("s")))
    pq.write_table(more, path)
    assert {v.partition: v.trouble for v in read_logs(table, mapped(PLAIN))} == {0: "", 1: ""}
    pq.write_table(more.replace_schema_metadata(None).cast(pa.schema([f.remove_metadata() for f in more.schema])), path)
    for kept_before in kept(table):
        kept_before.unlink()
    troubles = {v.partition: v.trouble for v in read_logs(table, mapped(PLAIN))}
    assert troubles[0] == ""
    assert "no bounds of column 'offset'" in troubles[1]
    assert len(cold.status(name_of(table), now=T0)) == 2


def test_numbers_without_a_sign_are_not_taken_for_others():
    field = pa.field("offset", pa.uint32(), metadata={b"PARQUET:field_id": b"2"})
    out = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array([2**31 + 5], pa.uint32())], schema=pa.schema([field])), out)
    footer = pq.read_metadata(pa.BufferReader(out.getvalue()))
    assert _column_facts(footer, 0, LogColumn(2, LongType(), ("offset",))) == (0, None, None)


def test_a_file_mapped_by_name_is_known(catalog):
    table = NESTED.adopted(catalog, f"foot.t{next(_names)}")
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    NESTED.append(table.refresh(), {0: log("a", "b")}, bounds=False)
    first = told(table, NESTED)
    for task in table.refresh().scan().plan_files():
        path = task.file.file_path.removeprefix("file://")
        bare = pa.schema([pa.field(f.name, without_ids(f.type), f.nullable) for f in pq.read_schema(path)])
        pq.write_table(pa.Table.from_pylist(pq.read_table(path).to_pylist(), schema=bare), path)
    for path in kept(table):
        path.unlink()
    assert told(table, NESTED) == first


def without_ids(kind):
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([pa.field(f.name, without_ids(f.type), f.nullable) for f in kind])


def test_a_column_that_came_later_is_null_in_older_files(catalog):
    """Unless it has a default (format v3), which is the value of all their rows."""
    table = new_topic(catalog)
    with table.update_schema() as update:
        update.delete_column("timestamp")
    append_without_time(table.refresh())
    with table.update_schema() as update:
        update.add_column("timestamp", LongType())
    (view,) = read_logs(table.refresh(), settings_of(table))
    assert (view.trouble, view.files[0].min_timestamp) == ("", None)
    (file,) = (task.file for task in table.scan().plan_files())
    later = find_column(table.schema(), "timestamp")
    offset = find_column(table.schema(), "offset")
    for column, expected in ((later, {later.field_id: (2, None, None)}), (replace(later, has_default=True), {})):
        looked = Footers(table.io, table.location(), None, (offset, column)).look([file.file_path])[file.file_path]
        assert {number: known for number, known in looked.items() if number != offset.field_id} == expected


def test_a_column_that_a_file_lacks_has_its_partitions_value(catalog):
    """As files in Hive's folders have it: nobody counts it as null, of which a rule of tombstones would be misled."""
    table = new_topic(catalog)
    with table.update_schema() as update:
        update.add_column("op", StringType())
    with table.update_spec() as update:
        update.add_field("op", IdentityTransform())
    settings = Settings(cleanup_policy="compact", tombstone="op=D")
    asked = {column.name: column.has_default for column in ManifestReader(table.refresh(), settings).footers.columns}
    assert (asked["op"], asked["offset"]) == (True, False)


def test_of_a_struct_footers_do_not_say_that_it_is_null(catalog):
    """Footers tell of its fields alone, so that nobody knows how many values are null."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    (file,) = (task.file for task in table.refresh().scan().plan_files())
    inner = StructType(NestedField(91, "a", LongType()))
    columns = (find_column(table.schema(), "offset"), LogColumn(90, inner, ("value",)))
    assert set(Footers(table.io, table.location(), None, columns).look([file.file_path])[file.file_path]) == {2}


def append_without_time(table):
    rows = {"partition": [0, 0], "offset": [0, 1], "key": [b"a", b"b"], "value": ["v", "v"]}
    table.append(pa.table(rows).cast(table.schema().as_arrow()))


def test_bounds_of_the_type_before_a_promotion_tell_nothing():
    """Format v3 lets a date become a timestamp, whose bounds have eight bytes in place of four."""
    column = LogColumn(3, TimestampType(), ("timestamp",))
    assert _bounds(_FileFacts({3: 0}, {3: b"abcd"}, {3: b"abcd"}), column) == (None, None)
