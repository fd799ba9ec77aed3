"""A location is one place however it is written, and nothing outside is taken for inside."""

import pytest
from hardpack.table.places import inside, place, shared, why_not

SAME = [
    ("s3://b/wh/t", "s3a://b/wh/t"),
    ("s3://b/wh/t", "s3n://b/wh/t/"),
    ("S3://b/wh/t", "s3://B/wh/t"),
    ("s3://b/wh/t", "s3://b/wh//t"),
    ("s3://b/wh/t", "s3://b/wh/./t"),
    ("s3://b/wh/t", "s3://b/wh/x/../t"),
    ("s3://b/wh/t", "s3://b/wh/%74"),
    ("s3://b/wh/t", "s3://b/wh/%2574"),
    ("s3://b/wh/t", "s3://b/wh%2Ft"),
    ("s3://b/wh/t", "s3://b/other/%2e%2e/wh/t"),
    ("s3://b/wh/a b", "s3://b/wh/a%20b"),
    ("file:/x/t", "file:///x/t"),
    ("file:///x/t", "/x/t"),
    ("file://localhost/x/t", "/x/t"),
    ("FILE:///x/t", "/x//t/"),
    ("/x/t", "/../x/t"),
    ("gs://b/t", "gcs://b/t"),
    ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@A.dfs.core.windows.net/t"),
    ("abfss://c@a.dfs.core.windows.net/t", "wasbs://c@a.blob.core.windows.net/t"),
    ("hdfs://nn:8020/t", "hdfs://NN/t"),
]
APART = [
    ("s3://b/wh/t", "s3://b/wh/t2"),
    ("s3://b/wh/t", "s3://c/wh/t"),
    ("s3://b/wh/t", "s3://b/WH/t"),
    ("s3://b/wh/t", "gs://b/wh/t"),
    ("/x/t", "/x/t.old"),
    ("hdfs://nn:8020/t", "hdfs://nn:9000/t"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_place_in_two_ways_of_writing(one, other):
    assert place(one) == place(other)
    assert shared(one, other)
    assert shared(other, f"{one}/data/x")
    assert shared(f"{one}/data/x", other)


@pytest.mark.parametrize(("one", "other"), APART)
def test_two_places(one, other):
    assert not shared(one, other)
    assert not inside(one, other)


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("s3a://b/wh/t", "s3://b/wh/"),
        ("s3://b/wh/db/t/data/x.parquet", "s3://b/wh/db/t"),
        ("file:/x/wh/t", "/x/wh"),
        ("s3://b/wh/p=a%2Fb/x", "s3://b/wh"),
    ],
)
def test_inside(location, folder):
    assert inside(location, folder)


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("s3://b/whale/t", "s3://b/wh"),
        ("s3://b/wh/../other/t", "s3://b/wh"),
        ("s3://b/wh/%2e%2e/other/t", "s3://b/wh"),
        ("s3://b/wh/%252e%252e/other/t", "s3://b/wh"),
        ("s3://b/w%68/t", "s3://b/wh"),
        ("s3://b2/wh/t", "s3://b/wh"),
        ("file:///etc", "/x/wh"),
        ("/x/wh/..", "/x/wh"),
        ("s3://b", "s3://b/wh"),
    ],
)
def test_not_inside(location, folder):
    assert not inside(location, folder)


@pytest.mark.parametrize(
    ("location", "allowed", "said"),
    [
        ("s3://b/wh/t", ["s3a://b/wh"], ""),
        ("s3://own/t", ["s3://b/wh", "s3://own"], ""),
        ("s3://b/other", ["s3://b/wh", "s3://c"], "does not lie inside s3://b/wh or s3://c"),
        ("s3://b/wh", ["s3://b/wh"], "does not lie inside"),
        ("s3://b/wh/t", [], "names no warehouse"),
        ("s3://b", ["s3://b"], "is no folder"),
        ("/", ["/"], "is no folder"),
    ],
)
def test_where_something_may_be_deleted(location, allowed, said):
    assert bool(why_not(location, allowed)) == bool(said)
    assert said in why_not(location, allowed)
