"""The hash that tells one row's content from another's, and which keys a sample holds (invariant 4)."""

import pytest
from hardpack.spark.evidence import Sample, content_hash

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("array<int>", ["null", "array()", "array(null)", "array(1)", "array(1, null)"]),
        ("array<array<int>>", ["array(null)", "array(array())", "array()", "array(array(null))"]),
        ("struct<z:array<int>>", ["null", "named_struct('z', null)", "named_struct('z', array())"]),
        ("struct<s:struct<n:int>>", ["null", "named_struct('s', null)", "named_struct('s', named_struct('n', null))"]),
        ("map<string,array<int>>", ["null", "map()", "map('a', null)", "map('a', array())", "map('b', null)"]),
        (
            "map<string,timestamp>",
            [f"map('a', timestamp_micros({n}))" for n in (0, 1, 1000)] + ["map('a', null)"],
        ),
        (
            "struct<t:timestamp_ntz>",
            [f"named_struct('t', timestamp_ntz'1970-01-01 00:00:00.00000{n}')" for n in (0, 1)],
        ),
        ("map<binary,int>", ["map(x'00', 1)", "map(x'01', 1)", "map(x'00', 2)", "map()", "null"]),
        ("array<map<binary,int>>", ["array(map(x'00', 1))", "array(null)", "array(map())", "array(map(x'01', 1))"]),
        (
            "struct<m:map<binary,int>>",
            ["null", "named_struct('m', null)", "named_struct('m', map())", "named_struct('m', map(x'00', 1))"],
        ),
        (
            "struct<a:string,b:string>",
            ["null", *(f"named_struct('a', {a}, 'b', {b})" for a in ("null", "''", "'x'") for b in ("null", "'x'"))],
        ),
        ("struct<`a.b`:int,`c``d`:int>", [f"named_struct('a.b', {a}, 'c`d', {b})" for a in (1, 2) for b in (1, 2)]),
        ("array<double>", ["array(double('NaN'))", "array(0d)", "array(null)", "array(double('Infinity'))"]),
        ("array<binary>", ["array(x'00')", "array(x'')", "array(x'0000')", "array(null)"]),
    ],
)
def test_equal_values_have_one_hash_and_no_two_others(spark, kind, values):
    def hashes():
        rows = spark.sql(" union all ".join(f"select cast({value} as {kind}) as c, 1 as o" for value in values))
        return [r.h for r in rows.select(content_hash(rows).alias("h")).collect()]

    found = hashes()
    assert len(set(found)) == len(values)
    assert hashes() == found


def test_a_sample_drawn_from_another_holds_some_of_its_keys(spark):
    keys = spark.range(20_000).selectExpr("cast(cast(id as string) as binary) as k", "cast(null as string) as control")

    def held(sample):
        return {bytes(r.k) for r in keys.where(sample.holds(keys["k"], keys["control"])).collect()}

    whole = Sample(10, 1)
    parts = [held(Sample(5, seed, whole)) for seed in (2, 3)]
    assert len(held(whole)) == pytest.approx(2_000, rel=0.2)
    for part in parts:
        assert part < held(whole)
        assert len(part) == pytest.approx(400, rel=0.3)
    assert parts[0] != parts[1]
    assert (whole.whole_share, Sample(5, 2, whole).whole_share) == (10, 50)


def test_rows_without_a_key_and_control_rows_are_in_every_sample(spark):
    rows = spark.createDataFrame([(None, None, 1), (b"k", "commit", 2)], "k binary, control string, o long")
    sample = Sample(10**6, 1, Sample(10**6, 2))
    assert [r.o for r in rows.where(sample.holds(rows["k"], rows["control"])).collect()] == [1, 2]
