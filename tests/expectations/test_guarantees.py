"""Every expectation fails on a planted violation of its own subject, and on nothing else."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.spark

COLUMNS = "p string, k string, o long, tombstone boolean, stands string, content long, kind string"
LOG = {"partition": "0", "bound": 10, "log_end": 13, "expired": [[0, 4]], "removed": 3}

SHARED = [("0", "d", 8, False, 1, 1, None), ("0", "e", 11, False, 1, 1, None), ("0", "a", 12, False, 1, 1, None)]
BEFORE = [(1, "a", False), (2, "b", False), (3, "a", False), (4, "c", True), (5, "b", True)]
AFTER = [(3, "a", False), (5, "b", True)]


def stood(p, k, o, tombstone, before, after, content, kind="data"):
    return p, k, o, tombstone, "both" if before and after else "before" if before else "after", content, kind


def side(rows, before):
    return [("0", k, o, t, int(before), int(not before), hash((k, o))) for o, k, t in rows]


def good():
    return [*SHARED, *side(BEFORE, True), *side(AFTER, False)]


def without(offset, after=True):
    return [r for r in good() if not (r[2] == offset and (r[5] if after else r[4]))]


def aborted(offset):
    """A row of an aborted transaction that a pass left."""
    return ("0", "a", offset, False, 1, 1, None, "aborted")


def marker(offset):
    """A control row that a pass took."""
    return ("0", None, offset, False, 1, 0, 1, "control")


VIOLATIONS = {
    "a superseded row stays": ([*good(), *side([(2, "b", False)], False)], {"removed": 2}, "latest_record_per_key"),
    "the latest row is gone": (without(3), {"removed": 4}, "latest_record_per_key"),
    "a tombstone leaves early": (without(5), {"removed": 4}, "latest_record_per_key"),
    "an older row stays instead": (
        [*without(3), *side([(1, "a", False)], False)], {}, "latest_record_per_key",
    ),
    "a row from nowhere": ([*good(), *side([(7, "f", False)], False)], {"removed": 2}, "kept_records_unchanged"),
    "a row is altered": (
        [*without(3), ("0", "a", 3, False, 0, 1, 4711)], {}, "kept_records_unchanged",
    ),
    "a row of the head is gone": (
        [*[r for r in good() if r[2] != 11], ("0", "e", 11, False, 1, 0, 1)], {"removed": 4}, "head_untouched",
    ),
    "a due tombstone stays": ([*good(), *side([(4, "c", True)], False)], {"removed": 2}, "no_tombstone_past_horizon"),
    "the ledger claims too much": (good(), {"removed": 4}, "ledger_balances"),
    "the ledger claims too little": (good(), {"removed": 2}, "ledger_balances"),
    "an aborted row stays": ([*good(), aborted(6)], {"removed": 3}, "transactions_resolved"),
    "a marker goes early": ([*good(), marker(6)], {"removed": 4}, "transactions_resolved"),
    "a marker stays too long": (good(), {"markers": 1}, "transactions_resolved"),
}  # fmt: skip


def judge(spark, home, rows, change, title):
    from hardpack_expectations.checkpoint import validate

    frame = spark.createDataFrame([stood(*r) for r in rows], COLUMNS)
    return validate(frame, "log_guarantees", "t.planted", title, [LOG | change], home)


def test_all_hold_on_a_right_pass(spark, home):
    verdict = judge(spark, home, good(), {}, "right")
    assert verdict.failed == []
    suite = json.loads((ROOT / "expectations" / "log_guarantees.json").read_text())
    assert len(verdict.results) == len(suite["expectations"])


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_planted_violation_fails_its_expectation_alone(spark, home, name):
    rows, change, expected = VIOLATIONS[name]
    verdict = judge(spark, home, rows, change, name.replace(" ", "-"))
    assert verdict.failed == [f"expect_{expected}"]
    assert not verdict.success


def test_rows_appended_meanwhile_break_nothing(spark, home):
    assert judge(spark, home, [*good(), ("0", "n", 13, False, 0, 1, 1)], {}, "appended").success


def test_one_metric_pass_serves_all(spark, home, monkeypatch):
    import hardpack_expectations.measure as counting

    calls = []
    real = counting.measure
    monkeypatch.setattr(counting, "measure", lambda *a: calls.append(1) or real(*a))
    judge(spark, home, good(), {}, "counted")
    assert calls == [1]


def test_data_docs_name_the_run_and_show_no_key_and_no_value(spark, home, catalog):
    from hardpack import Hardpack

    from tests.topics import T0, append, name_of, new_topic, row

    hp = Hardpack(catalog, spark, home)
    table = new_topic(catalog, active_segment="none")
    append(table, {0: [row(0, "secret-key", "secret-value"), row(1, "secret-key", "secret-value")], 1: [row(0, "b")]})
    hp.clean(hp.plan(name_of(table), now=T0))
    report = hp.verify(name_of(table), now=T0)
    page = Path(report.data_docs[0]).read_text()
    snapshots = [s.snapshot_id for s in table.refresh().snapshots()]
    assert f"<h1>{name_of(table)}</h1>" in page
    top = dict(re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", page))
    checked = top.pop("Checked")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ", checked)
    (plan,) = (s.summary.additional_properties["hardpack.plan"] for s in table.snapshots()[-1:])
    assert top == {
        "Pass": f"phase one, plan {plan.removeprefix('one:')}, snapshot {snapshots[-1]}",
        "Snapshot": f"{snapshots[-1]}, as published", "Compared with": f"snapshot {snapshots[0]}", "Partitions": "0, 1",
    }  # fmt: skip
    gates = [p.read_text() for p in home.glob(f"data_docs/validations/*/{name_of(table)}_partition*gate*/*/*.html")]
    assert ["phase one, plan" in gate and "2020-09-13 12:26:40Z" in gate for gate in gates] == [True]
    for text in (page, *gates):
        assert "Every guarantee holds" in text
        assert "None" not in text
        assert "batch of data" not in text
    for file in [*home.rglob("*.html"), *home.rglob("*.json")]:
        assert "secret" not in file.read_text()
        assert b"secret".hex() not in file.read_text()
    assert "secret" not in json.dumps(table.properties)
    assert "secret" not in json.dumps(table.current_snapshot().summary.additional_properties)


@pytest.mark.parametrize("text", ["the storage is away", "\n  An exception was thrown: the storage is away\n", ""])
def test_an_error_while_measuring_is_not_a_broken_guarantee(spark, home, monkeypatch, text):
    """Nobody may be told then that a table is broken."""
    import hardpack_expectations.measure as counting
    from hardpack.errors import Unavailable

    def lost(*_):
        raise OSError(text)

    monkeypatch.setattr(counting, "measure", lost)
    with pytest.raises(
        Unavailable, match=r"could not be measured \(.*(the storage is away|no message)\); run it again"
    ):
        judge(spark, home, good(), {}, "lost")


def test_a_tables_name_is_no_path_and_no_markup_in_the_pages(spark, home):
    from hardpack_expectations.checkpoint import validate

    frame = spark.createDataFrame([stood(*r) for r in good()], COLUMNS)
    verdict = validate(frame, "log_guarantees", "t.<b>a/../b</b>", "title", [LOG], home)
    assert verdict.success
    assert Path(verdict.page).is_relative_to(home / "data_docs")
    assert all("<b>a" not in page.read_text() for page in home.rglob("*.html"))


CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"


def test_no_partition_and_no_name_is_markup_and_a_page_fetches_nothing(spark, home):
    """A copy on a disk or on S3 has no server that says what a browser may do with it."""
    from hardpack_expectations.checkpoint import validate

    evil = '<img src=x onerror=alert("x")>$logs'
    rows = [stood(evil, *r[1:]) for r in good()]
    change = {"partition": evil, "causes": {"superseded": 3}}
    verdict = validate(
        spark.createDataFrame(rows, COLUMNS), "log_guarantees", evil, "evil", [LOG | change], home, {"Pass": evil}
    )  # fmt: skip
    page = Path(verdict.page)
    assert "&lt;img src=x onerror=alert(&quot;x&quot;)&gt;$logs" in page.read_text()
    for file in (page, home / "data_docs" / "index.html", home / "data_docs" / "expectations" / "log_guarantees.html"):
        text = file.read_text()
        assert "<img" not in text
        assert f'<meta http-equiv="Content-Security-Policy" content="{CSP}">'.replace("'", "&#39;") in text
        assert not re.findall(r"<script|<link|src=.http|<form", text)


def test_a_table_called_profiling_has_a_page(spark, home):
    assert Path(judge(spark, home, good(), {}, "profiling").page).is_file()


def test_a_page_costs_the_same_however_many_there_are(spark, home):
    """No earlier result is read, and no page of another pass taken away of which the result is not there yet."""
    times = [f"20260101T0000{n // 60:02}.{n % 60:02}0000Z" for n in range(150)]
    others = [home / f"data_docs/validations/log_guarantees/of_partition_another_{t}/{t}/page.html" for t in times]
    for other in others:
        other.parent.mkdir(parents=True)
        other.write_text("")
        damaged = (
            home / f"validations/log_guarantees/of_partition_another_{other.parent.name}/{other.parent.name}/page.json"
        )
        damaged.parent.mkdir(parents=True)
        damaged.write_text("{")
    odd = home / "data_docs/validations/log_guarantees/copied/by hand/page.html"
    odd.parent.mkdir(parents=True)
    odd.write_text("")
    verdict = judge(spark, home, good(), {}, "mine")
    assert verdict.success
    assert all(other.exists() for other in others)
    listed = re.findall('href="(.*?)">(.*?)<', (home / "data_docs" / "index.html").read_text())
    assert listed.pop(0) == ("validations/log_guarantees/copied/by%20hand/page.html", "copied")
    assert home / "data_docs" / unquote(listed[0][0]) == Path(verdict.page)
    assert listed[1][0] == others[-1].relative_to(home / "data_docs").as_posix()
    assert listed[1][1].startswith("2026-01-01 00:00:02 UTC of partition another")
    assert len(listed) == 99
    kept = Path(verdict.page.replace("/data_docs/", "/")).with_suffix(".json")
    assert json.loads(kept.read_text())["success"]
