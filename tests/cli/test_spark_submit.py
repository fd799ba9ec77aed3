"""The entry points that spark-submit is given: several plans in one application, each with a result of its own."""

import json
import logging
import sys
import time
from threading import Barrier
from types import SimpleNamespace

import pytest
from hardpack.cli.spark_submit import read_table_request, run_job
from hardpack.errors import BadInput, Conflict, GateRefused, Unavailable
from pydantic import BaseModel


class Done(BaseModel):
    table: str


@pytest.fixture
def submit(tmp_path, monkeypatch):
    from hardpack import Hardpack

    opened = []

    def connect(cls, name, spark):
        opened.append(SimpleNamespace(spark_application="a1", spark=spark or SimpleNamespace(sparkContext=context)))
        return opened[-1]

    context = SimpleNamespace(defaultParallelism=1)
    monkeypatch.setattr(Hardpack, "connect", classmethod(connect))
    monkeypatch.setattr(logging.getLogger("hardpack"), "propagate", False)

    def submitted(verb, *tables, slots=1, options=()):
        context.defaultParallelism = slots
        files = [tmp_path / f"{n}.json" for n in range(len(tables))]
        for file, table in zip(files, tables, strict=True):
            file.write_text(json.dumps({"table": table, "now": 1}) if table else "no request")
        result = tmp_path / "result.json"
        monkeypatch.setattr(sys, "argv", ["job", *options, "--result", str(result), "--plan", *map(str, files)])
        with pytest.raises(SystemExit) as ended:
            run_job(lambda hp, request: verb(request.table), "what it does", read_table_request)
        assert len({id(hp.spark) for hp in opened}) <= 1
        return ended.value.code, json.loads(result.read_text())

    return submitted


def test_each_plan_has_a_report(submit):
    assert submit(lambda table: Done(table=table), "db.a", "db.b") == (
        0,
        [{"table": name, "spark_application": "a1"} for name in ("db.a", "db.b")],
    )


def test_an_error_ends_the_work_on_its_own_plan_alone(submit):
    def verb(table):
        if table == "db.conflict":
            raise Conflict("db.conflict: another pass was first.")
        if table == "db.refused":
            raise GateRefused("db.refused: broken.", ("0",), ("/page.html",))
        return Done(table=table)

    code, results = submit(verb, "db.conflict", "db.refused", "", "db.good")
    assert code == Conflict.exit_code
    assert [r["table"] for r in results] == ["db.conflict", "db.refused", "", "db.good"]
    assert [r.get("exit_code") for r in results] == [
        Conflict.exit_code, GateRefused.exit_code, BadInput.exit_code, None,
    ]  # fmt: skip
    assert results[1]["data_docs"] == ["/page.html"]
    assert "is no request" in results[2]["error"]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Unavailable("db.b: the catalog does not answer."), 5, "db.b: the catalog does not answer."),
        (TimeoutError("no answer"), 5, "db.b: a service did not answer"),
        (KeyError("alice@example.org"), 1, "db.b: KeyError, which nobody foresaw; see the task's log"),
    ],
)
def test_after_an_error_that_may_be_the_applications_the_rest_is_left_to_another(submit, error, code, said):
    def verb(table):
        if table == "db.b":
            raise error
        return Done(table=table)

    ended, results = submit(verb, "db.a", "db.b", "db.c")
    assert (ended, [r["table"] for r in results]) == (code, ["db.a", "db.b"])
    assert results[1]["error"].startswith(said)
    assert "alice" not in results[1]["error"]


def test_what_was_done_is_written_while_the_next_goes_on(submit, tmp_path):
    result, worked_on = tmp_path / "result.json", []

    def verb(table):
        limit = time.monotonic() + 30
        while worked_on and (not result.exists() or [r["table"] for r in json.loads(result.read_text())] != worked_on):
            assert time.monotonic() < limit
            time.sleep(0.01)
        worked_on.append(table)
        return Done(table=table)

    code, _ = submit(verb, "db.a", "db.b", "db.c")
    assert (code, worked_on) == (0, ["db.a", "db.b", "db.c"])


def test_as_many_tables_as_spark_has_slots_are_worked_on_side_by_side_and_told_in_order(submit):
    three = Barrier(3)

    def verb(table):
        three.wait(30)
        if table == "db.b":
            raise Conflict("db.b: another pass was first.")
        return Done(table=table)

    code, results = submit(verb, "db.c", "db.b", "db.a", slots=3)
    assert code == Conflict.exit_code
    assert [r["table"] for r in results] == ["db.c", "db.b", "db.a"]


def test_what_was_begun_beside_a_piece_that_could_not_be_done_is_told_too(submit):
    """A refusal marks its log, so that another application would find nothing due and nobody would hear of it."""
    two = Barrier(2)

    def verb(table):
        if table == "db.a":
            two.wait(30)
            raise Unavailable("db.a: the catalog does not answer.")
        two.wait(30)
        time.sleep(0.2)
        raise GateRefused("db.b: broken.", ("0",), ("/page.html",))

    code, results = submit(verb, "db.a", "db.b", "db.c", "db.d", slots=2)
    assert code == Unavailable.exit_code
    assert [(r["table"], r["exit_code"]) for r in results] == [("db.a", 5), ("db.b", 3)]


def test_what_is_done_before_the_piece_ahead_of_it_is_kept_in_its_place(submit, tmp_path):
    result, limit = tmp_path / "result.json", time.monotonic() + 30

    def verb(table):
        while table == "db.a" and not result.exists():
            assert time.monotonic() < limit
            time.sleep(0.01)
        if table == "db.a":
            assert [one and one["table"] for one in json.loads(result.read_text())][:2] == [None, "db.b"]
        return Done(table=table)

    assert submit(verb, "db.a", "db.b", slots=2)[0] == 0


def test_no_two_pieces_are_worked_on_at_once_when_that_is_asked_for(submit):
    going = []

    def verb(table):
        going.append(table)
        time.sleep(0.02)
        assert going == [table]
        going.clear()
        return Done(table=table)

    assert submit(verb, "db.a", "db.b", "db.c", slots=3, options=["--one-by-one"])[0] == 0


def test_spark_that_cannot_be_opened_is_not_asked_again_for_each_piece(submit, monkeypatch):
    from hardpack import Hardpack

    asked = []

    def connect(cls, name, spark):
        asked.append(name)
        raise Unavailable("the catalog does not answer.")

    monkeypatch.setattr(Hardpack, "connect", classmethod(connect))
    code, results = submit(lambda table: Done(table=table), "db.a", "db.b", slots=2)
    assert (code, [r["table"] for r in results], len(asked)) == (Unavailable.exit_code, ["db.a"], 1)
