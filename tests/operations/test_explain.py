"""What is told of a key's rows is what the next pass does to them."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from hardpack import BadInput
from hardpack.cli import main as cli
from hardpack.demo.topic import SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, LongType, NestedField, StringType
from typer.testing import CliRunner

from tests.topics import T0, append, name_of, new_topic, offsets, random_rows, row

pytestmark = pytest.mark.spark


def told(report):
    return {(r.partition, r.offset): (r.becomes, r.not_before) for r in report.rows}


def going(report):
    return {r.offset for r in report.rows if r.becomes == "goes"}


def test_what_goes_is_what_passes_drop(hp, catalog):
    rng = random.Random(7)
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, delete_retention_ms=10)
    start = 0
    for step in range(3):
        for number in (25, 8):
            rows = random_rows(rng, start, number, keys=3, null_keys=False)
            start = rows[-1].offset
            append(table, {0: rows})
        now = T0 + 20 * step
        reports = [hp.explain(name_of(table), f"k{n}".encode(), now) for n in range(3)]
        before = offsets(table)
        assert sorted(r.offset for report in reports for r in report.rows) == before
        hp.clean_like_kafka(name_of(table), now)
        assert set().union(*map(going, reports)) == set(before) - set(offsets(table)) != set()


def test_a_tombstone_tells_when_it_goes_and_logs_do_not_mix(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0, delete_retention_ms=100)
    append(table, {0: [row(0, "a"), row(1, "a", None)], 1: [row(0, "a")]})
    append(table, {0: [row(2, "z")], 1: [row(1, "z")]})
    name = name_of(table)
    before = hp.explain(name, b"a", T0)
    assert told(before) == {(0, 0): ("goes", None), (0, 1): ("waits", None), (1, 0): ("stays", None)}
    assert "gives it a delete horizon 100 ms later" in next(r.reason for r in before.rows if r.tombstone)
    hp.clean(hp.plan(name, T0))
    assert told(hp.explain(name, b"a", T0 + 99, [0])) == {(0, 1): ("waits", T0 + 100)}
    assert hp.explain(name, b"a", T0 + 100, [0]).rows[0].reason.endswith("(idle.tombstones=keep)")
    hp.adopt(name, {"idle.tombstones": "expire"})
    assert told(hp.explain(name, b"a", T0 + 100, [0])) == {(0, 1): ("goes", T0 + 100)}
    assert hp.explain(name, b"nobody", T0).rows == ()


def test_open_and_aborted_transactions(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    with table.update_schema() as update:
        update.add_column("producer", LongType()).add_column("tx", BooleanType()).add_column("control", StringType())
    mapped = {"column.producer.id": "producer", "column.transactional": "tx", "column.control": "control"}
    hp.adopt(name_of(table), mapped)

    def write(*rows):
        columns = ("offset", "key", "producer", "tx", "control")
        schema = table.refresh().schema().as_arrow()
        data = dict(zip(columns, zip(*rows, strict=True), strict=True))
        data |= {"partition": [0] * len(rows), "timestamp": [T0 * 1000] * len(rows), "value": ["v"] * len(rows)}
        table.append(pa.table({n: pa.array(data[n], schema.field(n).type) for n in schema.names}, schema=schema))

    write((0, b"a", 1, False, None), (1, b"a", 2, True, None), (2, None, 2, True, "abort"))
    write((3, b"a", 1, False, None), (4, b"b", 1, False, None))
    write((5, b"b", 3, True, None), (6, b"a", 1, False, None))
    write((7, b"z", 1, False, None))
    found = {r.offset: (r.becomes, r.reason) for r in hp.explain(name_of(table), b"a", T0).rows}
    assert found[0] == ("goes", "offset 3 supersedes it; the next phase one drops it")
    assert found[1] == ("goes", "its transaction was aborted; the next phase one drops it")
    assert found[3] == ("waits", "offset 6 supersedes it; no pass may go that far yet (open transaction)")
    assert found[6] == ("stays", "the last row of its key")
    hp.clean(hp.plan(name_of(table), T0))
    assert offsets(table) == [2, 3, 4, 5, 6, 7]


def test_an_offset_that_stands_twice(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(0, "a")]})
    append(table, {0: [row(2, "z")]})
    rows = hp.explain(name_of(table), b"a", T0).rows
    assert sorted(r.becomes for r in rows) == ["goes", "stays"]
    gone = next(r for r in rows if r.becomes == "goes")
    assert gone.reason.startswith("another row stands for its offset")
    hp.clean(hp.plan(name_of(table), T0))
    assert gone.file not in table.refresh().inspect.files()["file_path"].to_pylist()


def test_of_a_hot_key_the_newest_rows_are_shown(hp, catalog, monkeypatch):
    monkeypatch.setattr("hardpack.operations.explain.ROWS", 3)
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(n, "a") for n in range(5)]})
    append(table, {0: [row(9, "z")]})
    report = hp.explain(name_of(table), b"a", T0)
    assert ([r.offset for r in report.rows], report.more) == ([4, 3, 2], True)
    assert going(report) == {2, 3}


def test_keys_as_text_and_as_hexadecimal(hp, catalog, monkeypatch):
    fields = [NestedField(1, "partition", IntegerType(), required=True), NestedField(2, "offset", LongType())]
    fields += [NestedField(3, "timestamp", LongType()), NestedField(4, "key", StringType())]
    schema = Schema(*fields, NestedField(5, "value", StringType()))
    name = "t.text_keys"
    table = catalog.create_table(name, schema, partition_spec=SPEC)
    hp.adopt(name, {"min.cleanable.dirty.ratio": "0"})
    rows = {"partition": [0, 0], "offset": [0, 1], "timestamp": [T0, T0], "key": ["ä", "ä"], "value": ["v", "v"]}
    arrow = table.schema().as_arrow()
    table.append(pa.table({n: pa.array(v, arrow.field(n).type) for n, v in rows.items()}, schema=arrow))
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: hp)

    def asked(*arguments):
        return CliRunner().invoke(cli.app, ["explain", name, "--now", str(T0), *arguments])

    for key in (["--key", "ä"], ["--key", "c3A4", "--hex"]):
        report = json.loads(asked(*key, "--json").stdout)
        assert [(r["offset"], r["becomes"]) for r in report["rows"]] == [(1, "stays"), (0, "waits")]
    shown = asked("--key", "ä").stdout
    assert "offset 1 supersedes it" in shown
    assert "ä" not in shown
    assert "no such key" in asked("--key", "other").stdout
    with pytest.raises(BadInput, match="expected as in 6b6579"):
        raise asked("--key", "ä", "--hex").exception
    with pytest.raises(BadInput, match="no UTF-8, but column 'key' holds text"):
        hp.explain(name, b"\xff", T0)


def test_a_topic_without_rows(hp, catalog):
    report = hp.explain(name_of(new_topic(catalog)), b"a", T0)
    assert (report.rows, report.snapshot) == ((), None)
