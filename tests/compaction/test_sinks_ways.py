"""Ways of sinks that a setting makes harmless: empty keys for none, and a row again with another ingestion time."""

import pyarrow as pa
import pytest
from hardpack import BadInput
from pyiceberg.types import LongType

from tests.topics import T0, append, name_of, new_topic, offsets, row

pytestmark = pytest.mark.spark


def test_where_an_empty_key_is_none_its_rows_are_no_versions_of_each_other(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, ""), row(1, "a"), row(2, ""), row(3, "a")]})
    append(table, {0: [row(4, "z")]})
    name = name_of(table)
    hp.adopt(name, {"key.absent": "empty"})
    with pytest.raises(BadInput, match="2 rows without a key"):
        hp.clean(hp.plan(name, T0))
    assert offsets(table) == [0, 1, 2, 3, 4], "a compacted topic has no rows without a key, and none is dropped unasked"
    hp.adopt(name, {"key.absent": "empty", "null.keys": "drop"})
    hp.resume(name)
    report = hp.clean(hp.plan(name, T0))
    assert offsets(table) == [3, 4]
    assert (report.logs[0].null_key, report.logs[0].superseded) == (2, 1)
    assert hp.verify(name, T0).success


def test_where_an_empty_key_is_a_key_its_latest_row_stays(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, ""), row(1, "a"), row(2, "")]})
    append(table, {0: [row(4, "z")]})
    hp.adopt(name_of(table), {"key.absent": "null"})
    report = hp.clean(hp.plan(name_of(table), T0))
    assert offsets(table) == [1, 2, 4]
    assert report.logs[0].superseded == 1


@pytest.mark.parametrize("ignored", [False, True])
def test_a_row_that_was_ingested_twice(hp, catalog, ignored):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    with table.update_schema() as update:
        update.add_column("ingested", LongType())
    for ingested, rows in ((1, [(0, "a"), (1, "b")]), (2, [(1, "b")]), (3, [(2, "z")])):
        schema = table.refresh().schema().as_arrow()
        data = {
            "partition": [0] * len(rows), "offset": [o for o, _ in rows], "timestamp": [T0 * 1000] * len(rows),
            "key": [k.encode() for _, k in rows], "value": ["v"] * len(rows), "ingested": [ingested] * len(rows),
        }  # fmt: skip
        table.append(pa.table({n: pa.array(data[n], schema.field(n).type) for n in schema.names}, schema=schema))
    name = name_of(table)
    if ignored:
        hp.adopt(name, {"duplicates.ignore": "ingested"})
        report = hp.clean(hp.plan(name, T0))
        assert offsets(table) == [0, 1, 2]
        assert report.logs[0].duplicate == 1
    else:
        with pytest.raises(BadInput, match="share an offset with a row that differs, the first at offset 1"):
            hp.clean(hp.plan(name, T0))
        assert offsets(table) == [0, 1, 1, 2]
