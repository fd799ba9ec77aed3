"""Reports of runs: their schema, how long they stay, where they are copied."""

import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hardpack.compaction.report import LogReport, PassReport, RunReport

from tests.conftest import ROOT

pytestmark = pytest.mark.dags
LOG = LogReport(
    partition=0, checkpoint_before=None, checkpoint_after=9, log_end=12, rows_before=12, rows_after=5, bytes_before=100,
    bytes_after=40, superseded=7,
)  # fmt: skip
PASS = PassReport(table="db.t", phase="one", plan="abc", now=5, base=1, snapshot=2, logs=(LOG,))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return tmp_path


def test_the_published_schema_is_the_reports(home):
    from hardpack_airflow.report import write_report

    published = json.loads((ROOT / "docs" / "run_report.schema.json").read_text())
    results = {"phase_one": [PASS.model_dump(mode="json")], "phase_two": [], "verify": []}
    held = [{"table": "db.t", "partition": 1, "reason": "refused"}]
    errors = ["db.x: no such table"]
    path = write_report("hardpack", "manual__2026-01-01T00:00:00+00:00", "lake", 5, results, errors, held=held)
    assert re.fullmatch(r"hardpack\.manual__2026-01-01T00_00_00_00_00-[0-9a-f]{12}\.json", path.name)
    written = json.loads(path.read_text())
    assert RunReport.model_validate(written).phase_one == [PASS]
    assert set(written) == set(published["properties"])


def test_every_run_has_a_report_of_its_own(home):
    from hardpack_airflow.report import write_report

    runs = [("d", "my:run"), ("d", "my_run"), ("d", "my run"), ("d.my", "run"), ("d", "my.run"), ("d", "x" * 250)]
    runs += [("d", "x" * 249 + "y"), ("d" * 250, "r" * 250), ("d", "ü" * 250), ("d", "../../escape"), ("d", "..")]
    empty = {"phase_one": [], "phase_two": [], "verify": []}
    paths = [write_report(dag, run, "lake", 5, empty, []) for dag, run in runs]
    assert len({path.name.lower() for path in paths}) == len(runs)
    assert {path.resolve().parent for path in paths} == {home / "reports"}
    assert [json.loads(path.read_text())["run"] for path in paths] == [run for _, run in runs]


def test_a_report_outside_the_schema_is_not_written(home):
    from hardpack_airflow.report import write_report

    with pytest.raises(ValueError, match="phase_one"):
        write_report(
            "hardpack", "run", "lake", 5, {"phase_one": [{"table": "db.t"}], "phase_two": [], "verify": []}, []
        )
    assert not (home / "reports").exists() or not list((home / "reports").iterdir())


def test_old_reports_go_and_new_ones_stay(home):
    from hardpack_airflow.report import forget_reports

    made = [
        home / "reports" / "old.json", home / "reports" / "new.json", home / "validations" / "s" / "old.json",
        home / "data_docs" / "validations" / "s" / "t" / "old.html", home / "data_docs" / "static" / "old.css",
    ]  # fmt: skip
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (1000, 1000) if path.stem == "old" else (3000, 3000))
    os.utime(home / "data_docs" / "validations" / "s" / "t", (1000, 1000))
    (home / "data_docs" / "validations" / "being_made").mkdir()
    assert forget_reports(home, 2000, 2000) == 3
    left = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert left == {"reports/new.json", "data_docs/static/old.css"}
    assert not (home / "data_docs" / "validations" / "s" / "t").exists()
    assert (home / "data_docs" / "validations" / "being_made").exists()


def test_a_sweep_that_is_cut_off_has_done_its_part(home, monkeypatch):
    from hardpack_airflow import report

    for number in range(10):
        file = home / "reports" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
        os.utime(file, (1000, 1000))
    looked, real = [], Path.lstat

    class CutOff(BaseException):
        """As Airflow ends a task whose time is over."""

    def lstat(path):
        looked.append(path)
        if len(looked) > 6:
            raise CutOff
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", lstat)
        with pytest.raises(CutOff):
            report.forget_reports(home, 2000, 2000)
    assert len(list((home / "reports").iterdir())) == 4


def test_old_files_are_looked_for_once_a_day(home, monkeypatch):
    from hardpack_airflow import report_task

    swept = []
    monkeypatch.setattr(report_task, "forget_reports", lambda *given: swept.append(given) or 0)
    operator = report_task.ReportOperator(task_id="report", policy="p", execution_timeout=timedelta(seconds=40))
    operator._forget(home)
    operator._forget(home)
    assert [given[0] for given in swept] == [home]
    assert swept[0][3] == 10, "a quarter of the task's time"
    yesterday = time.time() - 90_000
    os.utime(home / "swept", (yesterday, yesterday))
    operator._forget(home)
    assert len(swept) == 2


def test_a_sweep_ends_when_its_time_is_over_and_begins_elsewhere_the_next_time(home, monkeypatch):
    from hardpack_airflow import report

    for number in range(10):
        (home / "reports" / f"{number}.json").parent.mkdir(exist_ok=True)
        (home / "reports" / f"{number}.json").write_text("x")
        os.utime(home / "reports" / f"{number}.json", (5000, 5000))
    looked, real = [], Path.lstat
    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", lambda path: (looked.append(path.name), real(path))[1])
        # none is old; after three of them the time is over
        patch.setattr(report.time, "monotonic", lambda: len(looked))
        seen = set()
        for before in (2000, 2003, 2006, 2009):
            looked.clear()
            assert report.forget_reports(home, before, before, seconds=2) == 0
            assert len(looked) == 3
            seen |= set(looked)
    assert len(seen) == 10
    assert report.forget_reports(home, 6000, 6000, seconds=-1) == 0
    assert report.forget_reports(home, 6000, 6000, seconds=60) == 10


def test_a_home_that_cannot_be_written_fails_no_run(home, monkeypatch):
    from hardpack_airflow import report_task

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(report_task, "forget_reports", lambda *given: pytest.fail("others may sweep at this time"))
    report_task.ReportOperator(task_id="report", policy="p")._forget(home)


def test_a_report_is_there_though_its_plans_are_not(home, caplog):
    from hardpack_airflow.report import write_report
    from hardpack_airflow.report_task import ReportOperator

    units = [{"label": "db.t 0", "file": "plans/d.r/0.abc.json"}, {"label": "db.u 0", "plans": ["{}"]}]
    assert ReportOperator(task_id="report", policy="p")._plans_of(units) == ["{}"]
    empty = {"phase_one": [], "phase_two": [], "verify": []}
    path = write_report("d", "r", "lake", 5, empty, ["db.t: it failed."], plans=["{}", "no plan"])
    assert json.loads(path.read_text())["planned"] == []


def test_a_run_that_goes_on_keeps_its_plans(home):
    from hardpack_airflow.report import forget_reports
    from hardpack_airflow.report_task import _longest_run_seconds

    for name in ("plans", "results", "reports"):
        (home / name / "dag.run").mkdir(parents=True)
        (home / name / "dag.run" / "a.json").write_text("x")
        os.utime(home / name / "dag.run" / "a.json", (1000, 1000))
        os.utime(home / name / "dag.run", (1000, 1000))
    assert forget_reports(home, before=2000, runs_before=500) == 1
    assert sorted(path.parent.parent.name for path in home.rglob("a.json")) == ["plans", "results"]
    assert forget_reports(home, before=2000, runs_before=3000) == 2
    assert _longest_run_seconds() == 7 * 86400
    (home / "hardpack.yaml").write_text("policies: [{name: a, tables: [x.y], run.timeout.ms: 864000000}]")
    assert _longest_run_seconds() == 10 * 86400


GOOD, WRONG = {"table": "db.a"}, {"table": "db.b", "error": "db.b: it is wrong."}


@pytest.mark.parametrize(
    ("units", "stopped"),
    [
        ([([GOOD], [GOOD], [GOOD])], 0),
        ([([GOOD, WRONG], [GOOD, WRONG], [GOOD, WRONG])], 0),
        ([([WRONG], [], [])], 0),
        # killed between the verbs: only one of its tables has told why it went no further
        ([([GOOD, WRONG], [], [])], 1),
        ([([GOOD], [GOOD], []), ([], [], []), ([GOOD], [GOOD], [GOOD])], 2),
    ],
)
def test_every_unit_that_did_not_reach_the_end_is_told_of(units, stopped):
    from hardpack_airflow.report import gauges, unit_errors, units_that_died

    pulled = dict(zip(("phase_one", "phase_two", "verify"), zip(*units, strict=True), strict=True))
    said = [f"{stopped} of {len(units)} units did not reach the end, see their tasks"] if stopped else []
    wrong = [WRONG["error"]] if any(WRONG in verb for unit in units for verb in unit) else []
    assert unit_errors(pulled) == wrong + said
    assert unit_errors({verb: [] for verb in pulled}) == []
    assert gauges({"phase_one": [], "phase_two": []}, units_that_died(pulled)) == {"DeadThreadCount": stopped}


def test_a_unit_whose_driver_was_killed_died_though_each_table_has_its_sentence():
    from hardpack_airflow.report import unit_errors, units_that_died

    killed = WRONG | {"error": "db.b: its Spark application ended before its time", "died": True}
    for unit in ([killed], [GOOD, killed]):
        pulled = {verb: [unit] for verb in ("phase_one", "phase_two", "verify")}
        assert units_that_died(pulled) == 1
        assert unit_errors(pulled) == [killed["error"]]


class Ti:
    """What the tasks before have returned."""

    def __init__(self, **returned):
        self.returned, self.pushed = returned, {}

    def xcom_pull(self, task_ids, key="return_value", map_indexes=None):
        found = self.returned.get(task_ids if key == "return_value" else key)
        return [found] * len(map_indexes) if map_indexes is not None else found

    def xcom_push(self, key, value):
        self.pushed[key] = value


@pytest.fixture
def reported(home, monkeypatch):
    """Runs the task, and gives how it failed and the gauges that it sent."""
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow import report_task

    def run(**returned):
        sent = {}
        monkeypatch.setattr(report_task, "send", lambda policy, gauges: sent.update(gauges))
        run_of = SimpleNamespace(
            dag_id="hardpack", run_id="r", run_type="scheduled", run_after=datetime(2026, 1, 1, tzinfo=UTC), conf={}
        )
        context = {"ti": Ti(**returned), "dag_run": run_of, "params": {"tables": "db.*", "partitions": []}}
        operator = report_task.ReportOperator(task_id="report", policy="all", tables=["db.*"])
        with pytest.raises(AirflowFailException) as failed:
            operator.execute(context)
        return str(failed.value), sent

    return run


def test_a_run_that_could_not_even_look_tells_nothing_of_units_that_died(reported):
    """An alert that waits for two hours would begin anew with each catalog's hiccup."""
    assert reported() == ("nothing was planned, see the tasks sense and plan", {})
    unit = {"label": "db.t", "plans": []}
    said, sent = reported(plan=[unit])
    assert said == "1 of 1 units did not reach the end, see their tasks"
    assert sent["DeadThreadCount"] == 1


def test_results_that_cannot_be_read_keep_no_other_from_its_report(reported, home):
    unit, lost = {"label": "db.t", "plans": []}, {"file": "results/gone.json"}
    said, sent = reported(**{"plan": [unit], "unit.phase_one": lost, "unit.phase_two": lost, "unit.verify": lost})
    assert said.startswith(f"{home}/results/gone.json is not here")
    assert said.count("is not here") == 1
    assert sent["DeadThreadCount"] == 0
    assert (home / "reports" / "hardpack.r.json").is_file()


def test_reports_are_copied_to_s3_when_a_place_is_named(home, bucket, monkeypatch):
    from hardpack_airflow.s3_copy import pages_of, upload, upload_or_warn

    page = home / "data_docs" / "validations" / "s" / "page.html"
    page.parent.mkdir(parents=True)
    page.write_text("<p>fine</p>")
    assert upload([page]) == []
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://audit/lake/")
    assert pages_of({"data_docs": str(page)}) == pages_of({"data_docs": [str(page)]}) == [page]
    assert upload([page]) == ["s3://audit/lake/data_docs/validations/s/page.html"]
    found = bucket.get_object(Bucket="audit", Key="lake/data_docs/validations/s/page.html")
    assert (found["ContentType"], found["Body"].read()) == ("text/html", b"<p>fine</p>")
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "audit/lake")
    with pytest.raises(ValueError, match="expected s3://BUCKET"):
        upload([Path(page)])
    said = []
    monkeypatch.setattr("hardpack_airflow.s3_copy.log.warning", lambda *words: said.append(words[0] % words[1:]))
    upload_or_warn([page])
    assert said[0].startswith("page.html was not copied: ValueError: [hardpack] reports_s3")
