"""The entry points that spark-submit is given: several plans in one application, each with a result of its own."""

import json
import logging
import sys

import pytest
from hardpack.cli.spark_submit import read_table_request, run_job
from hardpack.errors import BadInput, Conflict, GateRefused, Unavailable
from pydantic import BaseModel


class Done(BaseModel):
    table: str


@pytest.fixture
def submit(tmp_path, monkeypatch):
    from hardpack import Hardpack

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name: type("Hp", (), {"spark_application": "a1"})))
    monkeypatch.setattr(logging.getLogger("hardpack"), "propagate", False)

    def submitted(verb, *tables):
        files = [tmp_path / f"{n}.json" for n in range(len(tables))]
        for file, table in zip(files, tables, strict=True):
            file.write_text(json.dumps({"table": table, "now": 1}) if table else "no errand")
        result = tmp_path / "result.json"
        monkeypatch.setattr(sys, "argv", ["job", "--result", str(result), "--plan", *map(str, files)])
        with pytest.raises(SystemExit) as ended:
            run_job(lambda hp, errand: verb(errand.table), "what it does", read_table_request)
        return ended.value.code, json.loads(result.read_text())

    return submitted


def test_each_plan_has_a_report(submit):
    assert submit(lambda table: Done(table=table), "db.a", "db.b") == (
        0,
        [{"table": "db.a", "spark_application": "a1"}, {"table": "db.b", "spark_application": "a1"}],
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
    assert "is no errand" in results[2]["error"]


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


def test_what_was_done_is_written_before_the_next_begins(submit, tmp_path):
    seen = []

    def verb(table):
        result = tmp_path / "result.json"
        seen.append([r["table"] for r in json.loads(result.read_text())] if result.exists() else [])
        return Done(table=table)

    submit(verb, "db.a", "db.b", "db.c")
    assert seen == [[], ["db.a"], ["db.a", "db.b"]]
