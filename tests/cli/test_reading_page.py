"""Every command and example of docs/reading.md is run as it stands there."""

import re
import shlex

import pytest
from hardpack import Hardpack
from hardpack.cli import main as cli
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.topics import append, new_topic, row

PAGE = (ROOT / "docs" / "reading.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.S)
COMMANDS = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
READER = '{"version": 1, "at": 0, "offset": 999}'
EXAMPLES = [block for kind, block in BLOCKS if kind == "python" and "confluent_kafka" not in block]
"""That which needs a broker is run in tests/reading/test_with_a_broker.py."""


@pytest.fixture
def hp(catalog, lake, monkeypatch):
    """The library on a lake whose topic the page's `db.topic` is."""
    table = new_topic(catalog)
    at = 1_769_860_800_000
    append(table, {0: [row(o, f"aircraft-{o % 9}") for o in range(990, 1010)], 1: [row(o, "b") for o in range(3)]}, at)
    name = ".".join(table.name())
    table.transaction().set_properties({"hardpack.reader.billing:0": READER}).commit_transaction()

    def connect():
        return Hardpack.connect(properties=lake)

    monkeypatch.setattr("hardpack.cli.console.connect", connect)
    real = Hardpack.session
    monkeypatch.setattr(Hardpack, "session", lambda own, table: real(own, name if table == "db.topic" else table))
    return connect()


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(shlex.split(c, comments=True)) for c in COMMANDS])
def test_a_command_does_what_it_says(hp, command):
    program, *arguments = shlex.split(command, comments=True)
    assert program == "hardpack"
    to_file = arguments.index(">") if ">" in arguments else len(arguments)
    said = CliRunner().invoke(cli.app, arguments[:to_file])
    assert said.exit_code == 0, said.exception
    assert len(said.stdout_bytes) > 20


def test_the_examples(hp, capsys):
    assert len(EXAMPLES) == 2
    names = {"hp": hp}
    for example in EXAMPLES:
        exec(example, names)
    assert capsys.readouterr().out.splitlines()[0] == "10 1000"
    assert names["found"].offset == 990
    assert names["ends"] == {"0": 1010, "1": 3}
