"""The hash that tells one row's content from another's (invariant 4)."""

import pytest
from hardpack.spark.evidence import content_hash

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
