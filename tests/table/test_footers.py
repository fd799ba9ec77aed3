"""Files of which the manifest does not tell: what their footers say, how that is kept, and what if it is lost."""

import gzip
from itertools import count
from pathlib import Path

import pytest
from hardpack.rules.reference.cleaner import Row
from hardpack.table.footers import FOLDER, Footers
from hardpack.table.log_views import read_logs
from hardpack.table.manifests import ManifestReader

from tests.layouts import HOURLY, LAYOUTS, NESTED, mapped
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
    assert (len(kept(without)), len(kept(with_bounds))) == (2, 0)


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
    """What it does not tell is filled in, and nothing else."""
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


def test_a_file_that_is_gone_troubles_its_log_alone(cold, catalog):
    table = made(catalog, HOURLY, False)
    gone = min(t.file.file_path for t in table.scan().plan_files() if t.file.record_count == 2)
    Path(gone.removeprefix("file://")).unlink()
    with pytest.raises(Exception, match=r"has no bounds of column 'redpanda.partition'"):
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
