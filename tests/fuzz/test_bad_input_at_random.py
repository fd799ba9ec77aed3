"""Hundreds of bad inputs: each ends in one sentence with its exit code, or in a right result; nothing half-done."""

import json
import random

import pytest
from hardpack import Hardpack, Plan
from hardpack.cli import main as cli
from hardpack.errors import Conflict, HardpackError
from hardpack.table.state import STATE_PROPERTY

from tests.topics import T0, append, name_of, new_topic, row

RUNS = 150
"""Damaged inputs of each kind, a third of it where each takes commits."""
NAMES = [
    "",
    ".",
    "..",
    "a",
    "a.b.c",
    "t.",
    ".t",
    "t..x",
    "'; DROP TABLE t; --",
    "t.x'y",
    't."x"',
    "`t`.`x`",
    "t.\x00",
    "t.x\n",
    "../../etc/passwd",
    "t.../x",
    "file:///etc/passwd",
    "t.ünïcode",
    "🐘.🐘",
    "t." + "x" * 5000,
    "t.*[",
    "*",
    "t.[!a]",
    "?.?",
    "${jndi:ldap://x/y}",
    "%s%n{0}",
    " t.x ",
    "-",
    "t.x@branch",
    "t.x.snapshots",
    "null",
    "0",
    "T.TOPIC",
    "\ud800.x",
    "t.\u202ex",
]
TIMES = [
    "-1",
    "0",
    str(2**63),
    str(-(2**63)),
    str(2**200),
    "1e9",
    "NaN",
    "",
    "今日",
    "0x10",
    "9" * 400,
    "٣",
    "1.5",
    "true",
]
PARTITIONS = ["x", "-1", "0", "1", str(2**40), "", "0,1", "'", "\x00", "🐘", "NaN", "0.0", "null", "0 OR 1=1"]
SETTINGS = [
    "delete.retention.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "cleanup.policy",
    "segment.bytes",
    "column.key",
    "column.offset",
    "column.partition",
    "null.keys",
    "no.such.setting",
    "",
    "state",
    "🐘",
]
VALUES = [
    "-5",
    "0",
    "NaN",
    "inf",
    "-inf",
    "1e400",
    str(2**200),
    "",
    " ",
    "burn",
    "compact,burn",
    "null",
    "'; drop",
    "\x00",
    "ünï",
    "=",
    "true",
    "0x10",
    "offset",
    "value",
    "no_such_column",
    "[]",
    "{}",
    "2",
]


@pytest.fixture
def command(lake, home, monkeypatch, capsys):
    """Runs the command line in this process: exit code and what it said."""
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake, home=home))

    def run(*words, also=()):
        monkeypatch.setattr("sys.argv", ["hardpack", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        code = ended.value.code or 0
        context = f"{words!r}: {code}, {said.err[-400:]}"
        assert "Traceback" not in said.out + said.err, context
        assert code in (0, 2, *also), context
        if code:
            sentence = [line for line in said.err.splitlines() if line.startswith("hardpack: ")]
            # all tables have a sentence each, and other tests left some of theirs behind
            told = sentence if "*" in words else len(sentence) == 1
            assert told or "─ Error ─" in said.err, context
        return code

    return run


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "a")], 1: [row(0, "b")]})
    append(table, {0: [row(2, "b")], 1: [row(1, "b")]})
    return table


def place(table):
    """The table's metadata file: the same as long as nothing was changed."""
    return table.refresh().metadata_location


def test_names_times_and_partitions(command, topic):
    rng, before = random.Random(1), place(topic)
    for _ in range(RUNS):
        verb = rng.choice(["status", "plan", "pause", "resume", "adopt"])
        table = rng.choice([*NAMES, name_of(topic)])
        words = [verb, "--", table] if rng.random() < 0.3 else [verb, table]
        if verb in ("status", "plan") and rng.random() < 0.7:
            words[1:1] = [f"--now={rng.choice(TIMES)}"]
        if verb == "plan" or (verb == "pause" and table != name_of(topic)):
            words[1:1] = [f"--partition={rng.choice(PARTITIONS)}"]
        code = command(*words)
        if verb in ("status", "plan") or code:
            assert place(topic) == before
        before = place(topic)


def test_settings(command, topic):
    rng = random.Random(2)
    before = place(topic)
    for _ in range(RUNS):
        pairs = [
            rng.choice(SETTINGS) + rng.choice(["=", "=", "=", ""]) + rng.choice(VALUES)
            for _ in range(rng.randint(1, 3))
        ]
        code = command("adopt", name_of(topic), *(f"--set={pair}" for pair in pairs))
        if code:
            assert place(topic) == before, pairs
        before = place(topic)
        # whatever was accepted must be something that can be worked with
        assert command("status", name_of(topic)) == 0, pairs


def damaged(rng, text):
    """A JSON text that somebody edited, cut off or overwrote."""
    kind = rng.randrange(7)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice('{}[]",:0x\\ \x00é') + text[at + 1 :]
    if kind == 2:
        return rng.choice(["", "[]", "{}", "null", "0", '"x"', "NaN", "[" * 5000, "\ufeff" + text, text + text])
    found = json.loads(text)
    spot = found
    while True:
        inside = [v for v in (spot.values() if isinstance(spot, dict) else spot) if isinstance(v, dict | list) and v]
        if not inside or rng.random() < 0.4:
            break
        spot = rng.choice(inside)
    at = rng.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
    if kind == 3:
        del spot[at]
    else:
        spot[at] = rng.choice(
            [None, -1, 2**63, 2**200, 1.5, "", "x", [], {}, True, "0", -(2**63), [[1, 2]], "é" * 3000]
        )
    return json.dumps(found)


class _Would(HardpackError):
    """The plan was taken: a JVM would start now."""

    exit_code = 0


def test_plan_files(command, topic, cold, tmp_path, monkeypatch):
    def jvm_table(self, name, table=None):
        raise _Would("")

    monkeypatch.setattr(Hardpack, "jvm_table", jvm_table)
    rng, before = random.Random(3), place(topic)
    text = cold.plan(name_of(topic), T0, force=True).to_json()
    file = tmp_path / "plan.json"
    for _ in range(RUNS):
        broken = damaged(rng, text)
        file.write_bytes(rng.randbytes(80) if rng.random() < 0.05 else broken.encode("utf-8", "surrogatepass"))
        # a plan of a snapshot that the table has not is a conflict
        command("clean", f"--plan={file}", also=(Conflict.exit_code,))
        assert place(topic) == before
    for path in (tmp_path, tmp_path / "none.json", "/dev/null", "a\x00b"):
        assert command("clean", f"--plan={path}") == 2


def test_a_damaged_state(command, topic):
    rng = random.Random(4)
    assert command("pause", name_of(topic)) == 0
    sound = topic.refresh().properties[STATE_PROPERTY]
    for _ in range(RUNS // 3):
        with topic.refresh().transaction() as change:
            change.set_properties({STATE_PROPERTY: damaged(rng, sound)})
        before = place(topic)
        for words in (["status"], ["plan", f"--now={T0}"], ["resume"]):
            if command(*words, name_of(topic)):
                assert place(topic) == before
    with topic.refresh().transaction() as change:
        change.set_properties({STATE_PROPERTY: sound})
    assert command("status", name_of(topic)) == 0


def test_properties_by_hand(command, topic):
    """What somebody sets past `adopt` is refused when it is read, by name."""
    rng = random.Random(5)
    kept = dict(topic.properties)
    for _ in range(RUNS // 3):
        name = f"hardpack.{rng.choice(SETTINGS)}"
        with topic.refresh().transaction() as change:
            change.set_properties({name: rng.choice(VALUES)})
        for verb in ("status", "plan"):
            command(verb, name_of(topic))
        with topic.refresh().transaction() as change:
            if name in kept:
                change.set_properties({name: kept[name]})
            else:
                change.remove_properties(name)
    assert command("status", name_of(topic)) == 0


def test_what_a_run_is_given(topic, catalog, monkeypatch):
    """Parameters of a DAG run past Airflow's own schema: an error for each table, or right plans."""
    from hardpack_airflow.planning import plan_units

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name, **given: cls(catalog, **given)))
    policy = {"name": "all", "tables": ["*.*"], "unit.bytes": 10**12}
    rng, before = random.Random(6), place(topic)
    for _ in range(RUNS):
        tables = [rng.choice([*NAMES, name_of(topic)]) for _ in range(rng.randint(1, 2))]
        partitions = rng.choice([None, [], [rng.choice(PARTITIONS)]])
        now = rng.choice([T0, 0, -1, 2**63, -(2**63), 2**200])
        span = rng.choice([None, (0, T0), (T0, 0), (-(2**70), 2**70)])
        found = plan_units("hardpack", policy, tables, partitions, rng.random() < 0.5, now, span)
        assert all("\n" not in error and "nobody foresaw" not in error for error in found["errors"]), found["errors"]
        for plan in (plan for unit in found["units"] for plan in unit["plans"]):
            Plan.from_json(plan)
        assert place(topic) == before
