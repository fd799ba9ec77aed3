"""What a pass did, and why it left some of its plan's logs alone, as a terminal shows it."""

import io

import pytest
from hardpack import Hardpack
from hardpack.cli import main as cli
from hardpack.cli.render import grid, key_table, pass_table, plan_table, policies_table, readers_table, status_table
from hardpack.compaction.plan import Plan, PlanRequest
from hardpack.compaction.planning import make_plan
from hardpack.compaction.report import KeyReport, KeyRow, LogReport, PassReport
from hardpack.operations.readers import ReaderStatus
from hardpack.operations.status import LogStatus
from hardpack.policy import Policy
from hardpack.rules.reference.cleaner import Row
from rich.console import Console
from typer.testing import CliRunner

from tests.compaction.test_hostile import hostile_topic
from tests.layouts import MIXED
from tests.topics import T0, append, name_of, new_topic, row, session_of

LEFT = "partition 1: nothing dirty below the bound (open transaction)"
CLEANED = LogReport(
    partition=0, checkpoint_before=None, checkpoint_after=1, log_end=1, rows_before=1, rows_after=1, bytes_before=9,
    bytes_after=9,
)  # fmt: skip


@pytest.mark.parametrize(("logs", "found"), [((), "nothing is due"), ((CLEANED,), "phase one")])
def test_why_a_log_of_the_plan_was_left_alone_is_told(catalog, lake, monkeypatch, logs, found):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")], 1: [row(0, "a")]})
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    monkeypatch.setattr(
        Hardpack, "clean",
        lambda _, plan, dry_run=False: PassReport(
            table=plan.table, phase="one", plan=plan.id, now=plan.now, base=1, logs=logs, notes=(LEFT,)
        ),
    )  # fmt: skip
    said = CliRunner().invoke(cli.app, ["clean", name_of(table)], env={"COLUMNS": "200"})
    assert said.exit_code == 0
    assert found in said.stdout
    assert LEFT in said.stdout


def test_a_name_is_shown_as_it_is(monkeypatch, catalog, lake):
    hostile_topic(catalog, "t.shown", ("partition", "offset", "timestamp", "key", "value"), ["[/x]", ":key:", "a\x1bb"])
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    for verb in ("status", "plan"):
        said = CliRunner().invoke(cli.app, [verb, "t.shown"], env={"COLUMNS": "200"})
        assert said.exit_code == 0, said.exception
        assert all(name in said.stdout for name in ("[/x]", ":key:", "a\\x1bb"))


@pytest.mark.parametrize(
    ("width", "left_out"), [(200, ""), (120, "files"), (80, "files size rows"), (60, "checkpoint")]
)
def test_the_verdict_stands_in_every_terminal(width, left_out):
    columns = ("log", "rows", "size", "files", "dirty", "checkpoint", "next horizon", "verdict")
    rows = [
        ("shop.orders_of_a_year/0", 10**6, "12.3 MB", 12, "0.512", "1,234", "2026-11-28 12:00:00Z", "due: ratio " * 5)
    ]
    shown = io.StringIO()
    spare = ("files", "size", "next horizon", "rows", "checkpoint")
    Console(width=width, file=shown).print(grid("", columns, rows, spare))
    heads = shown.getvalue().split("\n")[1]
    assert {"log", "dirty", "verdict"} <= set(heads.split())
    assert not set(left_out.split()) & set(heads.split())
    assert shown.getvalue().count("due:") == shown.getvalue().count("ratio") == 5
    assert "shop.orders_of_a_year/0" in shown.getvalue()


@pytest.mark.parametrize("width", [30, 36, 40, 44, 50])
def test_no_terminal_is_so_narrow_that_it_shows_another_number(width):
    log = LogStatus(
        table="lake.orders", partition=0, rows=1, bytes=1, files=1, ratio=0.731, due=True,
        reason="dirty ratio 0.731 is above 0.5", checkpoint=1, first_dirty=0, first_uncleanable=0, log_end=1,
        overdue_ms=0, dirty_age_ms=0, tombstones_waiting=0, next_horizon=None,
    )  # fmt: skip
    lines = shown_at(width, status_table([log])).split("\n")
    column = next(line.index("verdict") for line in lines if "verdict" in line)
    assert "0.731isabove0.5" in "".join(line[column:].replace(" ", "") for line in lines)


def shown_at(width, table):
    shown = io.StringIO()
    Console(width=width, file=shown).print(table)
    return shown.getvalue()


LARGE = 1_234_567_890
PASSED = CLEANED.model_copy(update={"rows_before": LARGE, "rows_after": LARGE - 9, "superseded": 9})


@pytest.mark.parametrize(
    ("table", "whole"),
    [
        (
            pass_table(
                PassReport(table="shop.orders", phase="one", plan="p", now=1, base=1, snapshot=2, logs=(PASSED,))
            ),
            ("0", "1,234,567,890 → 1,234,567,881"),
        ),
        (
            readers_table(
                [
                    ReaderStatus(
                        reader="the_reader",
                        table="shop.orders",
                        partition="0",
                        position=LARGE,
                        log_end=LARGE + 7,
                        at=T0,
                        source="connect/a_group/orders",
                        waited_for=True,
                    )
                ]
            ),
            ("the_reader", "shop.orders/0", "1,234,567,890", "yes"),
        ),
        (
            key_table(
                KeyReport(
                    table="shop.orders",
                    snapshot=1,
                    now=1,
                    rows=(
                        KeyRow(
                            partition="0",
                            offset=LARGE,
                            tombstone=False,
                            file="data/" + "f" * 60,
                            becomes="waits",
                            not_before=T0,
                            reason="the active segment is not cleaned",
                        ),
                    ),
                )
            ),
            ("1,234,567,890", "waits"),
        ),
        (policies_table([Policy(name="orders_of_the_shop", tables=("shop.orders",))]), ("orders_of_the_shop",)),
    ],
    ids=["pass", "readers", "key", "policies"],
)
def test_what_stands_in_a_narrow_terminal_is_whole(table, whole):
    shown = shown_at(80, table)
    assert all(text in shown for text in whole), shown
    assert "…" not in shown


def test_of_what_is_cut_it_is_seen():
    assert "…" in shown_at(40, grid("", ("log", "a", "b", "why"), [("0", "x" * 40, "y" * 40, "z")]))


def test_a_plan_tells_when_files_stay(catalog):
    table = new_topic(catalog, deletion_vector_max_ratio=0.1)
    append(table, {0: [row(0, "a")]})
    plan = make_plan(session_of(table), PlanRequest(T0))
    assert "deletion vectors" not in str(plan_table(plan).title)
    told = str(plan_table(plan.model_copy(update={"merge_on_read": True})).title)
    assert "files of 4.2 MB or more with at most 10% dead rows stay, under deletion vectors" in told


def test_files_of_several_logs_are_told_by_every_verb_that_meets_them(catalog, lake, monkeypatch):
    table = MIXED.adopted(catalog, "t.several")
    monkeypatch.setattr("hardpack.cli.console.connect", lambda: Hardpack.connect(properties=lake))
    run = CliRunner()

    def said(*arguments):
        found = run.invoke(cli.app, list(arguments), env={"COLUMNS": "200"})
        assert found.exit_code == 0, found.exception
        return " ".join(found.stdout.split())

    assert "no file that may hold rows of several logs" in said("split", "t.several")
    MIXED.append(table, {p: [Row(0, b"a", b"v", timestamp=T0)] for p in (0, 1)})
    assert "t.several/several" in said("status", "t.several")
    segments = said("segments", "t.several")
    assert "t.several/several" in segments
    assert "to be split" in segments
    assert "split first: 1 file that may hold rows of several logs" in said("plan", "t.several")
    dry = said("split", "t.several", "--dry-run")
    assert "1 files that may hold rows of several logs" in dry
    assert "nothing yet; the next pass splits them" in dry
    assert "1 files that may hold rows of several logs" in said("adopt", "t.several")
    # read back as a job gets it
    plan = Plan.from_json(said("plan", "t.several", "--json"))
    assert (plan.split.files, plan.partitions) == (1, None)


def test_the_help_of_adoption_says_defaults_in_words():
    said = CliRunner().invoke(cli.app, ["adopt", "--help"], env={"COLUMNS": "200"}).output
    assert "segment.ms = none:" in said
    assert "max.compaction.lag.ms = no limit:" in said
    assert not [word for word in ("= None", "= ()", "e+308", "9223372036854775807") if word in said]
