"""Files that hardpack writes, asked by Iceberg's Java and by pyiceberg what may and what must match a predicate."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hardpack.demo.topic import COLUMNS
from hardpack.files.content_file import ContentFile
from hardpack.spark.jvm_table import JvmTable
from pyiceberg import expressions as py
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.types import DoubleType, FloatType, LongType

from tests.samples import TYPES, new_table, rows, value, write
from tests.topics import T0, name_of, new_topic

pytestmark = pytest.mark.spark
NAMES = [*TYPES, "inner.float", "inner.text", "inner.deep.long", "inner.deep.double", "empty"]
JAVA = {
    "<": "lessThan", "<=": "lessThanOrEqual", ">": "greaterThan", ">=": "greaterThanOrEqual", "=": "equal",
    "!=": "notEqual", "null": "isNull", "not null": "notNull", "nan": "isNaN", "not nan": "notNaN",
    "starts": "startsWith", "not starts": "notStartsWith", "in": "in", "not in": "notIn",
}  # fmt: skip
PYTHON = {
    "<": py.LessThan, "<=": py.LessThanOrEqual, ">": py.GreaterThan, ">=": py.GreaterThanOrEqual, "=": py.EqualTo,
    "!=": py.NotEqualTo, "null": py.IsNull, "not null": py.NotNull, "nan": py.IsNaN, "not nan": py.NotNaN,
    "starts": py.StartsWith, "not starts": py.NotStartsWith, "in": py.In, "not in": py.NotIn,
}  # fmt: skip
MATCHES = {
    "<": lambda v, x: v < x, "<=": lambda v, x: v <= x, ">": lambda v, x: v > x, ">=": lambda v, x: v >= x,
    "=": lambda v, x: v == x, "!=": lambda v, x: v != x, "not nan": lambda v, _: not math.isnan(v),
    "nan": lambda v, _: math.isnan(v), "starts": lambda v, x: v.startswith(x),
    "not starts": lambda v, x: not v.startswith(x), "in": lambda v, x: v in x, "not in": lambda v, x: v not in x,
}  # fmt: skip
NEGATIVE = {"!=", "not in", "not starts", "not nan"}


def predicates(rng, kind, seen):
    """An operator and its operand, often a value of the rows."""
    names = ["<", "<=", ">", ">=", "=", "!=", "null", "not null", "in", "not in"]
    text = str(kind) in ("string", "binary")
    if str(kind) in ("float", "double"):
        names += ["nan", "not nan"] * 2
    elif str(kind) == "string":
        names += ["starts", "not starts"] * 2
    name = rng.choice(names)

    def operand():
        found = None
        # to Iceberg an infinite literal is beyond all floats, the infinite ones too
        while found is None or found != found or (str(kind) == "float" and math.isinf(found)):
            found = rng.choice(seen) if rng.random() < 0.6 else value(rng, kind)
        return found[: rng.randrange(len(found) + 1)] if text and rng.random() < 0.4 else found

    if name in ("null", "not null", "nan", "not nan"):
        return name, None
    return name, tuple(dict.fromkeys(operand() for _ in range(3))) if name in ("in", "not in") else operand()


def matches(name, row, operand, lenient):
    """Whether a row matches; what SQL knows no answer to counts as the caller has it."""
    if name in ("null", "not null"):
        return (row is None) == (name == "null")
    if row is None:
        return lenient and name in NEGATIVE
    return MATCHES[name](row, operand)


def java_literal(jvm, kind, operand):
    if str(kind) in ("binary", "fixed[5]"):
        return jvm.java.nio.ByteBuffer.wrap(bytearray(operand))
    if str(kind) == "uuid":
        return jvm.java.util.UUID.fromString(str(UUID(bytes=bytes(operand))))
    if isinstance(kind, LongType):
        return jvm.java.lang.Long.valueOf(str(operand))
    if isinstance(kind, FloatType | DoubleType):
        # py4j writes infinities in a way that Java does not read
        return jvm.java.lang.Double.valueOf(str(operand).replace("inf", "Infinity"))
    return operand if isinstance(operand, bool | int | float | str | Decimal) else operand.isoformat()


def java_predicate(spark, column, kind, name, operand):
    jvm, make = spark._jvm, getattr(spark._jvm.org.apache.iceberg.expressions.Expressions, JAVA[name])
    if operand is None:
        return make(column)
    if isinstance(operand, tuple):
        listed = jvm.java.util.ArrayList()
        for one in operand:
            listed.add(java_literal(jvm, kind, one))
        return make(column, listed)
    return make(column, java_literal(jvm, kind, operand))


def python_predicate(column, kind, name, operand):
    def literal(one):
        if str(kind) == "uuid":
            return UUID(bytes=bytes(one))
        return one if isinstance(one, bool | int | float | str | bytes | Decimal) else one.isoformat()

    if operand is None:
        return PYTHON[name](column)
    return PYTHON[name](column, {literal(o) for o in operand} if isinstance(operand, tuple) else literal(operand))


def published(spark, table, entries):
    door = JvmTable(spark, f"hardpack.{name_of(table)}")
    added = [door.java_file(ContentFile(entry)) for entry in entries]
    append = door._java.newAppend()
    for file in added:
        append.appendFile(file)
    append.commit()
    return door, added


@pytest.mark.parametrize("mode", ["truncate(2)", "truncate(16)", "full", "counts"])
def test_no_file_is_skipped_that_matches_nor_dropped_that_does_not(spark, catalog, mode):
    """250 predicates on four files a mode, by the rows."""
    rng = random.Random(mode)
    table = new_table(catalog, {"write.metadata.metrics.default": mode})
    all_nan = {"float": [math.nan] * 3, "double": [math.nan, None, math.nan], "text": [None] * 3}
    batches = [rows(rng, 3), rows(rng, 30), rows(rng, 3, **all_nan), rows(rng, 1)]
    entries = [write(table, [batch])[1][0] for batch in batches]
    _, files = published(spark, table, entries)
    mine = {t.file.file_path: t.file for t in table.refresh().scan().plan_files()}
    ice = spark._jvm.org.apache.iceberg
    schema = table.schema()
    java_schema = ice.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"hardpack.{name_of(table)}").schema()
    pruned = strict = 0
    for _ in range(250):
        column = rng.choice(NAMES)
        kind, (first, *inner) = schema.find_type(column), column.split(".")
        held = []
        for batch in batches:
            values = batch[first].to_pylist() if first != "id" else [v and v.bytes for v in batch["id"].to_pylist()]
            for name in inner:
                values = [None if v is None else v[name] for v in values]
            held.append(values)
        name, operand = predicates(rng, kind, [v for values in held for v in values])
        java, python = java_predicate(spark, column, kind, name, operand), python_predicate(column, kind, name, operand)
        inclusive = ice.expressions.InclusiveMetricsEvaluator(java_schema, java)
        must = ice.expressions.StrictMetricsEvaluator(java_schema, java)
        for file, entry, values in zip(files, entries, held, strict=True):
            data_file = mine[entry["file-path"]]
            may_match = inclusive.eval(file), _InclusiveMetricsEvaluator(schema, python).eval(data_file)
            # pyiceberg's strict evaluator knows no nested columns
            all_match = must.eval(file), not inner and _StrictMetricsEvaluator(schema, python).eval(data_file)
            told = f"{name} {operand!r} on {column}: {values}"
            if any(matches(name, v, operand, lenient=False) for v in values):
                assert all(may_match), told
            if not all(matches(name, v, operand, lenient=True) for v in values):
                assert not any(all_match), told
            pruned += not all(may_match)
            strict += any(all_match)
    assert strict > 50
    assert pruned > (150 if mode != "counts" else 50)


@pytest.fixture
def readings(catalog):
    """A topic with a measured number."""
    table = new_topic(catalog)
    with table.update_schema() as change:
        change.add_column("f", DoubleType())
    return table.refresh()


def measured(numbers, value="v"):
    size = len(numbers)
    columns = [[0] * size, range(size), [T0 * 1000] * size, [b"k"] * size, [value] * size]
    arrays = [pa.array(held, kind) for held, kind in zip(columns, COLUMNS.types, strict=True)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(numbers)], names=[*COLUMNS.names, "f"])


def test_a_delete_by_metadata_spares_rows_that_are_nan(spark, readings):
    """Iceberg takes a file away unread when its metrics say that every row matches."""
    _, entries = write(readings, [measured([1.0, math.nan, 2.0])])
    published(spark, readings, entries)
    spark.sql(f"DELETE FROM hardpack.{name_of(readings)} WHERE f < 10")
    (left,) = (row[0] for row in spark.sql(f"SELECT f FROM hardpack.{name_of(readings)}").collect())
    assert math.isnan(left)


def test_rows_with_values_that_arrow_has_no_statistics_of_are_found(spark, readings):
    """Over 4,096 bytes Arrow leaves a row group's bounds out, and other row groups' are not those of the file."""
    low, high = "a" * 5000, "z" * 5000
    _, (entry,) = write(readings, [measured([1.0] * 3000, text) for text in ("m", low, high)], target=300_000)
    assert len(entry["split-offsets"]) > 3
    published(spark, readings, [entry])
    for text in (low, high, "m"):
        found = spark.sql(f"SELECT count(*) FROM hardpack.{name_of(readings)} WHERE value = '{text}'").collect()
        assert found[0][0] == 3000


def test_uuids_that_java_sorts_otherwise_are_found(spark, catalog):
    """To Iceberg's Java half of all random UUIDs are negative, and bounds of both halves hold neither."""
    table = new_table(catalog)
    ids = [bytes([first]) + bytes(7) + b"\x80" + bytes(7) for first in (0x10, 0x7F, 0x80, 0xF0)]
    _, entries = write(table, [rows(random.Random(1), 4, id=ids)])
    _, (file,) = published(spark, table, entries)
    ice, schema = spark._jvm.org.apache.iceberg, table.schema()
    java_schema = ice.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"hardpack.{name_of(table)}").schema()
    for one in ids:
        predicate = java_predicate(spark, "id", schema.find_type("id"), "=", one)
        assert ice.expressions.InclusiveMetricsEvaluator(java_schema, predicate).eval(file)
