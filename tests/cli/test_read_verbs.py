"""`read` and `seek` as they are typed: rows as lines, JSON, Arrow and Parquet; places in a log; bad input."""

import base64
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack import Hardpack
from hardpack.cli import main as cli
from hardpack.cli.row_output import Output, write_rows
from hardpack.errors import BadInput
from typer.testing import CliRunner

from tests.topics import T0, append, name_of, new_topic, row

AN_HOUR = 3_600_000


@pytest.fixture
def topic(catalog, lake, monkeypatch):
    """Two logs in two commits, an hour between: offsets 0 to 2 and 10 to 11."""
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    table = new_topic(catalog)
    append(table, {0: [row(0, "a", "x\ty"), row(1, "ä", None), row(2, None, "\\N")], 1: [row(5, "b")]})
    append(table, {0: [row(10, "a", "new"), row(11, "c")]}, at=T0 + AN_HOUR)
    return name_of(table)


def run(*arguments, code=0, **more):
    said = CliRunner().invoke(cli.app, list(arguments), env={"COLUMNS": "200"}, **more)
    if code:
        assert isinstance(said.exception, BadInput)
        return str(said.exception)
    assert said.exit_code == 0, said.exception
    return said.stdout_bytes if more.get("binary") else said.stdout


def test_lines(topic):
    assert run("read", topic, "-p", "0").splitlines() == [
        "partition\toffset\ttimestamp\tkey\tvalue",
        "0\t0\t2020-09-13T12:26:40+00:00\ta\tx\\ty",
        "0\t1\t2020-09-13T12:26:40+00:00\tä\t\\N",
        "0\t2\t2020-09-13T12:26:40+00:00\t\\N\t\\\\N",
        "0\t10\t2020-09-13T13:26:40+00:00\ta\tnew",
        "0\t11\t2020-09-13T13:26:40+00:00\tc\tv",
    ]


def test_json(topic):
    rows = [json.loads(line) for line in run("read", topic, "-o", "json").splitlines()]
    assert [(r["partition"], r["offset"]) for r in rows] == [(0, 0), (0, 1), (0, 2), (0, 10), (0, 11), (1, 5)]
    assert rows[1] == {
        "partition": 0, "offset": 1, "timestamp": "2020-09-13T12:26:40+00:00",
        "key": base64.b64encode("ä".encode()).decode(), "value": None,
    }  # fmt: skip


def test_nothing_is_written_of_what_cannot_be_read(topic, monkeypatch, capsys):
    def refused(*_, **__):
        raise BadInput("no")
        yield

    monkeypatch.setattr("hardpack.reading.reader.TopicReader.read", refused)
    for output in Output:
        said = CliRunner().invoke(cli.app, ["read", topic, "-o", output])
        assert (str(said.exception), said.stdout) == ("no", "")


@pytest.mark.parametrize("limit", [0, 2, None])
def test_arrow_and_parquet(topic, limit):
    more = () if limit is None else ("--limit", str(limit))
    said = CliRunner().invoke(cli.app, ["read", topic, "-o", "arrow", *more]).stdout_bytes
    told = CliRunner().invoke(cli.app, ["read", topic, "-o", "parquet", *more]).stdout_bytes
    arrow, parquet = pa.ipc.open_stream(said).read_all(), pq.read_table(io.BytesIO(told))
    assert arrow.equals(parquet)
    assert len(arrow) == (6 if limit is None else limit)
    assert arrow.schema.field("timestamp").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (["--from", "2"], [2, 10, 11]),
        (["--from", "3", "--to", "11"], [10]),
        (["--from", "beginning", "--to", "end"], [0, 1, 2, 10, 11]),
        (["--from", "2020-09-13T13:00Z"], [10, 11]),
        (["--to", "2020-09-13T13:00Z"], [0, 1, 2]),
        (["--from", "99"], []),
        (["--from", "2030-01-01T00:00Z"], []),
        (["--key", "a"], [0, 10]),
        (["--limit", "1"], [0]),
    ],
)
def test_places(topic, place, found):
    lines = run("read", topic, "-p", "0", "-c", "offset", *place).splitlines()
    assert lines == ["offset", *map(str, found)]


def test_a_key_from_standard_input(topic):
    assert run("read", topic, "-c", "offset", "--key", "-", input="ä\n").splitlines() == ["offset", "1"]


def test_seek(topic):
    told = json.loads(run("seek", topic, "-p", "0", "--offset", "3", "--json"))
    assert (told["offset"], told["timestamp"], told["row"]) == (10, T0 + AN_HOUR, 0)
    told = json.loads(run("seek", topic, "-p", "0", "--time", str(T0 + 1), "--json"))
    assert told["offset"] == 10
    assert run("seek", topic, "-p", "0", "--offset", "12", "--json") == "null\n"
    assert "has no such row; it has offsets from 0 to before 12" in run("seek", topic, "-p", "0", "--offset", "12")
    shown = run("seek", topic, "-p", "0", "--offset", "0")
    assert f"{T0}, 2020-09-13 12:26:40Z" in shown
    assert "bytes read" in shown
    assert ".parquet" in shown.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["read", "-p", "7"], "there is no partition 7, it has 0, 1"),
        (["read", "--from", "soon"], "'soon' is no place in a log, expected an offset as in 1000"),
        (["read", "--from", "-5"], "'-5' is no place in a log"),
        (["read", "-c", "none"], "there is no column 'none', expected some of partition, offset"),
        (["seek", "-p", "0"], "give either --offset or --time"),
        (["seek", "-p", "0", "--offset", "1", "--time", "1"], "give either --offset or --time"),
        (["seek", "-p", "9", "--offset", "1"], "there is no partition 9, it has 0, 1"),
    ],
)
def test_bad_input(topic, arguments, sentence):
    verb, *rest = arguments
    assert sentence in run(verb, topic, *rest, code=2)


def test_control_characters_are_written_as_bytes_and_others_as_they_are(catalog, topic):
    table = new_topic(catalog)
    append(table, {0: [row(0, "\x1b[2J", "👩\u200d🚀\xa0"), row(1, "k", "\\x1b")]})
    lines = run("read", name_of(table), "-c", "key", "-c", "value").splitlines()
    assert lines[1:] == ["\\x1b[2J\t👩\u200d🚀\xa0", "k\t\\\\x1b"]


def test_rows_that_fail_midway_leave_no_whole_file(catalog, topic):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    append(table, {0: [row(5, "a", "one")]})
    append(table, {0: [row(5, "a", "two")]})
    said = CliRunner().invoke(cli.app, ["read", name_of(table), "-o", "parquet"])
    assert isinstance(said.exception, BadInput)
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(io.BytesIO(said.stdout_bytes))


def test_numbers_that_are_none_are_text_in_json():
    from hardpack.cli.row_output import _as_json

    told = _as_json({"a": float("nan"), "b": [float("inf"), b"\xff", None, 1.5], "c": {"d": True}})
    assert json.loads(told) == {"a": "nan", "b": ["inf", "/w==", None, 1.5], "c": {"d": True}}


def test_text_that_is_no_text_is_no_wrong_time(topic):
    rows = pa.record_batch([pa.array([b"\xff"], pa.binary()).cast(pa.string(), safe=False)], ["key"])
    with pytest.raises(BadInput, match="a row has text that is no UTF-8"):
        write_rows([rows], rows.schema, None, Output.JSON)


@pytest.mark.parametrize(("given", "offsets"), [(b"a", ["0", "10"]), (b"a\n", ["0", "10"]), (b"a\r\n", ["0", "10"]),
                                               (b"a\r", []), (b"a\n\n", [])])  # fmt: skip
def test_of_a_key_from_standard_input_only_the_end_of_its_line_is_left_out(topic, given, offsets):
    said = run("read", topic, "-p", "0", "--key", "-", input=given).splitlines()
    assert [line.split("\t")[1] for line in said[1:]] == offsets


def test_an_offset_of_thousands_of_digits_is_no_place(topic):
    assert "is no place in a log" in run("read", topic, "--from", "9" * 5000, code=2)
