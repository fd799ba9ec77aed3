"""Verbs on several tables at once, and times as people write them."""

import json

import pytest
from hardpack.cli.main import app
from hardpack.clock import time_of
from hardpack.compaction.report import OwnCheck, PassReport, VerifyReport
from hardpack.errors import BadInput, Conflict, Unavailable
from typer.testing import CliRunner

FAILED = OwnCheck(expectation="e", success=False, observed="", partitions=[])


class Library:
    """Expires tombstones, but not of every table."""

    def __init__(self):
        self.asked = []
        self.wrong = {"db.busy": Conflict("db.busy: others commit."), "db.away": Unavailable("db.away: no answer.")}

    def tables(self, pattern):
        return {"db.*": ["db.a", "db.away", "db.busy", "db.z"], "no.*": []}.get(pattern, [pattern])

    def expire_tombstones(self, table, now, partitions, dry_run):
        self.asked.append((table, now))
        if table in self.wrong:
            raise self.wrong[table]
        return PassReport(table=table, phase="two", plan="p", now=now or 0, base=1)


@pytest.fixture
def library(monkeypatch):
    found = Library()
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: found)
    return found


def run(*arguments):
    return CliRunner().invoke(app, ["expire-tombstones", *arguments])


def test_one_that_fails_does_not_stop_the_others_and_the_highest_code_counts(library):
    done = run("db.*", "db.a", "db.more", "--json")
    assert done.exit_code == 5
    assert [table for table, _ in library.asked] == ["db.a", "db.away", "db.busy", "db.z", "db.more"]
    told = json.loads(done.stdout)
    assert [(one["table"], one.get("exit_code", 0)) for one in told] == [
        ("db.a", 0), ("db.away", 5), ("db.busy", 4), ("db.z", 0), ("db.more", 0),
    ]  # fmt: skip
    assert told[1]["error"] == "db.away: no answer."
    assert "hardpack: db.busy: others commit." in done.stderr


def test_a_broken_guarantee_is_told_also_beside_a_table_that_failed_for_less(library):
    def verify(table, now, partitions):
        if table == "db.busy":
            raise BadInput("db.busy: it is wrong.")
        return VerifyReport(table=table, now=0, success=False, passes_hold=table != "db.z")

    library.verify = verify
    assert CliRunner().invoke(app, ["verify", "db.*", "--json"]).exit_code == 3


def test_a_broken_guarantee_is_told_before_all_others(library):
    def verify(table, now, partitions):
        if table == "db.away":
            raise Unavailable("db.away: no answer.")
        own = (FAILED,) if table == "db.busy" else ()
        return VerifyReport(table=table, now=0, success=False, passes_hold=table != "db.z", own=own)

    library.verify = verify
    assert CliRunner().invoke(app, ["verify", "db.*", "--json"]).exit_code == 3
    assert CliRunner().invoke(app, ["verify", "db.a", "db.busy", "--json"]).exit_code == 6
    assert CliRunner().invoke(app, ["verify", "db.z"]).exit_code == 3
    assert CliRunner().invoke(app, ["verify", "db.a"]).exit_code == 0


def test_people_read_a_table_for_each(library):
    done = run("db.*")
    assert done.exit_code == 5
    assert [name for name in ("db.a", "db.z") if name in done.stdout] == ["db.a", "db.z"]
    assert "db.away: no answer." in done.stderr


def test_one_table_is_one_object_and_its_error_is_the_commands(library):
    assert json.loads(run("db.a", "--json").stdout)["table"] == "db.a"
    assert isinstance(run("db.busy").exception, Conflict)


def test_a_glob_that_matches_nothing_is_said(library):
    assert str(run("db.a", "no.*").exception).startswith("no.*: no adopted table matches")
    assert library.asked == []


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1767225600000", 1767225600000), ("-1", -1), ("2026-01-01", 1767225600000),
        ("2026-01-01T00:00Z", 1767225600000),
        ("2026-01-01T02:00:00.5+02:00", 1767225600500), (" 2026-01-01 00:00 ", 1767225600000),
    ],
)  # fmt: skip
def test_times_are_numbers_or_iso(library, text, ms):
    assert time_of(text) == ms
    assert run("db.a", "--now", text).exit_code == 0
    assert library.asked == [("db.a", ms)]


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "1e9", "2026-01-01T25:00", "--"])
def test_what_is_no_time_is_refused(library, text):
    with pytest.raises(BadInput, match="is no time, expected ms"):
        time_of(text)
    assert isinstance(run("db.a", f"--now={text}").exception, BadInput)


@pytest.mark.parametrize("more", [["-p", "1"], ["--now", "2020-01-01"], ["--force"]])
def test_a_plan_says_which_logs_when_and_how(library, tmp_path, more):
    said = CliRunner().invoke(app, ["clean", "--plan", str(tmp_path / "plan.json"), *more])
    assert "a plan says which logs, when and how" in str(said.exception)
