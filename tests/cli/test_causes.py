"""Every display walks the one list of causes, so that its numbers add up; a further cause is seen in all of them."""

import io
import re
from types import SimpleNamespace

import pytest
from hardpack.cli.render import pass_table
from hardpack.compaction.report import LogReport, PassReport
from hardpack.operations.summary import Moment, PassTotals
from hardpack.rules import causes
from rich.console import Console

BEFORE = 1_000_000


def log(kind=LogReport, **removed):
    return kind(
        partition=0, checkpoint_before=None, checkpoint_after=9, log_end=9, rows_before=BEFORE,
        rows_after=BEFORE - sum(removed.values()), bytes_before=9, bytes_after=9, **removed,
    )  # fmt: skip


def report(*logs):
    return PassReport(table="a.b", phase="one", plan="p", now=1, base=1, snapshot=2, logs=logs)


def numbers(text):
    return [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", text)]


def in_terminal(entry):
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(pass_table(report(entry)))
    return console.export_text()


def in_the_run(entry):
    from hardpack_airflow.report import lines

    passed = {"table": "a.b", "notes": [], "logs": [vars(entry)]}
    return "\n".join(lines({"phase_one": [passed], "phase_two": [], "verify": []}))


def in_charts(entry):
    from hardpack_airflow.charts import charts

    ended = PassTotals.of(report(entry), 2)
    return charts([Moment(at=at, bytes=1, added=1, since_pass=0, ended=ended) for at in (1000, 2000)])[-1]


def in_data_docs(entry):
    from hardpack.compaction.gate import promise
    from hardpack_expectations.guarantees import ExpectLedgerBalances

    counted = {"rows_before": BEFORE, "rows_after": entry.rows_after, "removed": entry.removed}
    row = ExpectLedgerBalances.numbers({"partition": "0"} | counted | {"causes": promise(entry)["causes"]})
    result = SimpleNamespace(result={"details": {"partitions": [{"partition": "0", "rows": 0} | row]}})
    (table,) = ExpectLedgerBalances._per_partition(result=result)
    return "\n".join(" ".join(map(str, line)) for line in (table.header_row, *table.table))


DISPLAYS = [in_terminal, in_the_run, in_charts, in_data_docs]


def test_each_cause_is_counted_by_the_reports():
    assert {cause.name for cause in causes.CAUSES} < set(LogReport.model_fields)
    assert log(superseded=3, retention=4).removed == 7


@pytest.mark.parametrize("display", DISPLAYS)
def test_each_cause_that_took_rows_is_shown_and_no_other(display):
    taken = {cause.name: 10 + n for n, cause in enumerate(causes.CAUSES)}
    shown = display(log(**taken))
    for cause in causes.CAUSES:
        assert cause.label in shown
        assert taken[cause.name] in numbers(shown)
    shown = display(log(retention=5))
    assert "retention" in shown
    assert "superseded" not in shown


@pytest.mark.parametrize(("success", "words"), [(True, "every guarantee holds"), (False, "A GUARANTEE IS BROKEN")])
def test_the_run_tells_a_broken_guarantee_from_one_that_holds(success, words):
    from hardpack_airflow.report import lines

    def said(**more):
        check = {"table": "a.b", "success": success, "data_docs": []} | more
        return lines({"phase_one": [], "phase_two": [], "verify": [check]})

    assert said() == [f"a.b: {words}"]
    assert said(data_docs=["/x/1.html", "/x/2.html"]) == [f"a.b: {words}; Data Docs /x/1.html, /x/2.html"]
    assert said(not_read_again=1) == [f"a.b: {words}; 1 log stands as the gate has read"]
    assert said(not_read_again=2) == [f"a.b: {words}; 2 logs stand as the gate has read"]


@pytest.mark.parametrize("display", DISPLAYS)
def test_a_further_cause_is_seen_everywhere(display, monkeypatch):
    class Further(LogReport):
        vanished: int = 0

    monkeypatch.setattr(causes, "CAUSES", (*causes.CAUSES, causes.Cause("vanished", "gone with the wind", "a storm")))
    entry = log(Further, superseded=1, vanished=4321)
    assert entry.removed == 4322
    shown = display(entry)
    assert "gone with the wind" in shown
    assert 4321 in numbers(shown)
