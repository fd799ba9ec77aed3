"""Reports of runs and Data Docs on our pages, from this disk and from S3."""

import os
import pickle
import re
import time

import pytest
from hardpack.compaction.report import LogReport, PassReport, PlannedLog, RunReport, VerifyReport

pytestmark = pytest.mark.dags


def test_reports_are_listed_the_newest_first(client, tmp_path):
    (tmp_path / "reports").mkdir()
    for at, name in enumerate(("first", "second")):
        file = tmp_path / "reports" / f"{name}.json"
        file.write_text(run_report(run=f"the {name}").model_dump_json())
        os.utime(file, (1000 + at, 1000 + at))
    (tmp_path / "reports" / "other.json").write_text("{}")
    page = tmp_path / "data_docs" / "validations" / "s" / "db.a_b_partition_0-1_published_7" / "time"
    page.mkdir(parents=True)
    (page / "x.html").write_text("fine")
    listed = client.get("/reports").text
    assert listed.index("the second</a>") < listed.index("the first</a>")
    assert "This file is no report of ours." in listed
    assert "db.a_b partition 0-1 published 7" in listed
    address = re.search(r'href="/hardpack(/docs/[^"]*)"', listed).group(1)
    assert client.get(address).text == "fine"


def run_report(**given):
    """A run that cleaned one table in both phases, and could not work on another."""
    logs = [
        LogReport(
            partition=0, checkpoint_before=None, checkpoint_after=9, log_end=9, rows_before=before, rows_after=after,
            bytes_before=before * 10**9, bytes_after=after * 10**9, **{cause: before - after},
        )
        for before, after, cause in ((100, 40, "superseded"), (40, 39, "expired_tombstone"))
    ]  # fmt: skip
    passes = [
        PassReport(
            table="db.orders", phase=phase, plan="p", now=5, base=1, snapshot=2, logs=(log,), notes=(f"{phase}!",)
        )
        for phase, log in zip(("one", "two"), logs, strict=True)
    ]
    found = VerifyReport(
        table="db.orders", now=5, success=False, data_docs=("/h/data_docs/validations/s/t/time/x.html",)
    )
    wrong = ["db.late: <b>no</b> such table."]
    planned = [PlannedLog(table="db.orders", partition=n, reason=f"dirty ratio 0.{n} is above 0") for n in range(5)]
    held = [PlannedLog(table="db.stuck", partition="p<1>", reason="refused: rows arrived")]
    usual = {"run": "manual__1", "dag": "hardpack_orders", "now": 5, "errors": wrong, "planned": planned, "held": held}
    return RunReport(phase_one=passes[:1], phase_two=passes[1:], **usual | {"verify": [found]} | given)


def test_a_report_is_read_by_people(client, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HARDPACK__PRICE_PER_GB_MONTH", "0.5")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "hardpack_orders.manual__1.json").write_text(run_report().model_dump_json())
    page = client.get("/reports/hardpack_orders.manual__1").text
    assert "<h1>1 table cleaned, 1 with a broken guarantee, 1 problem.</h1>" in page
    assert "db.late: &lt;b&gt;no&lt;/b&gt; such table." in page
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    text = [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]
    assert text[:5] == ["db.orders", "1", "100", "39", "superseded 60, expired 1"]
    assert text[5:8] == ["100.0 GB", "39.0 GB", "61.0 GB (30.50 a month)"]
    assert text[11] == "a guarantee is broken · Data Docs"
    first = "; ".join(f"log {n}, dirty ratio 0.{n} is above 0" for n in range(3))
    assert text[13] == f"Why it was planned: {first}; and 2 more logs"
    assert text[15] == "one! two!"
    assert "<li>db.stuck/p&lt;1&gt;: refused: rows arrived</li>" in page
    assert 'href="/hardpack/docs/validations/s/t/time/x.html"' in page
    assert 'href="/dags/hardpack_orders/runs/manual__1"' in page
    assert client.get("/api/reports/hardpack_orders.manual__1").json()["dag"] == "hardpack_orders"
    assert client.get("/reports/nothing").status_code == 404


def test_a_tables_page_names_the_runs_that_worked_on_it(client, topics, tmp_path):
    (tmp_path / "reports").mkdir()
    cleaned = run_report()
    passes = [one.model_copy(update={"table": topics[0]}) for one in cleaned.phase_one]
    planned = [PlannedLog(table=topics[0], reason="split first: 2 files"), *cleaned.planned]
    told = {
        "good": cleaned.model_copy(
            update={"phase_one": passes, "phase_two": [], "verify": [], "errors": [], "planned": planned}
        ),
        "bad": run_report(errors=[f"{topics[0]}: the catalog is away."]), "other": cleaned,
    }  # fmt: skip
    for name, report in told.items():
        (tmp_path / "reports" / f"{name}.json").write_text(report.model_dump_json())
    (tmp_path / "reports" / "no_report.json").write_text('{"phase_one": [7]}')
    page = client.get(f"/tables/{topics[0]}").text
    assert "<td>split first: 2 files</td><td>60 rows removed, not verified</td>" in page
    assert f"{topics[0]}: the catalog is away." in page
    assert re.findall(r"/hardpack/reports/(\w+)", page).count("other") == 0
    assert "<h2>Runs</h2>" not in client.get(f"/tables/{topics[1]}").text


def test_pages_show_what_lies_on_s3_alone(client, bucket, tmp_path, monkeypatch):
    place = "data_docs/validations/log_guarantees/db.orders_partition_0_published_7/20260102T030405.000000Z/x.html"
    found = VerifyReport(table="db.orders", now=5, success=True, data_docs=(f"/srv/data_docs/home/{place}",))
    report = run_report(verify=[found])
    bucket.put_object(Bucket="audit", Key="lake/reports/hardpack.other.json", Body=report.model_dump_json())
    bucket.put_object(Bucket="audit", Key=f"lake/{place}", Body="<p>fine</p>")
    bucket.put_object(Bucket="audit", Key="lake/secret.txt", Body="secret")
    assert "hardpack.other" not in client.get("/reports").text
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://audit/lake/")
    listed = client.get("/reports").text
    assert 'href="/hardpack/reports/hardpack.other"' in listed
    assert "2026-01-02 03:04:05 UTC db.orders partition 0 published 7" in listed, "the report tells of it"
    assert "1 table cleaned" in client.get("/reports/hardpack.other").text
    assert client.get(f"/docs/{place.removeprefix('data_docs/')}").text == "<p>fine</p>"
    assert client.get("/docs/..%2fsecret.txt").status_code == 404
    assert client.get("/reports/nothing").status_code == 404


def test_a_tables_pages_are_listed_without_those_of_others(own_homes, bucket, monkeypatch):
    """There may be hundreds of thousands, of which S3 lists a thousand at a time."""
    from hardpack_airflow import s3_copy, stored

    titles = ["db.orders_partition_0_published_7", "db.orders_partition_1_published_8", "db.other_partition_0_gate"]
    for suite in ("log_guarantees", "own_expectations"):
        for title in titles:
            page = f"data_docs/validations/{suite}/{title}/20260102T030405.000000Z/x.html"
            bucket.put_object(Bucket="audit", Key=f"lake/{page}", Body="<p>fine</p>")
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://audit/lake/")
    listed, real = [], s3_copy._listed

    def noted(*asked, **more):
        listed.extend(found := real(*asked, **more))
        return found

    monkeypatch.setattr(s3_copy, "_listed", noted)
    assert len(stored.newest_docs(50, "db.orders")) == 4
    assert not [name for name, _ in listed if "db.other" in name]
    listed.clear()
    assert stored.newest_docs(50) == []
    assert listed == [], "of all tables there may be too many"


def test_what_is_kept_of_a_table_comes_too_late_and_the_table_is_shown(client, topics, monkeypatch):
    from hardpack_airflow import report_pages, stored

    monkeypatch.setattr(report_pages, "KEPT_SECONDS", 0.2)
    monkeypatch.setattr(stored, "newest_reports", lambda: time.sleep(2) or {})
    answer = client.get(f"/tables/{topics[1]}")
    assert answer.status_code == 200
    assert "the place of the reports did not answer in 0.2 s" in answer.text


def test_of_a_report_here_and_on_s3_the_newer_one_counts(client, bucket, tmp_path, monkeypatch):
    """A cleared task may write it again on another worker."""
    from hardpack_airflow import stored

    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://audit/lake/")
    file = tmp_path / "reports" / "d.r.json"
    file.parent.mkdir()
    file.write_text("the first try")
    bucket.put_object(Bucket="audit", Key="lake/reports/d.r.json", Body="the second try")
    assert stored.read("reports", "d.r.json") == b"the first try", "its copy comes a moment later"
    os.utime(file, (1000, 1000))
    assert stored.read("reports", "d.r.json") == b"the second try"
    assert stored.newest_reports()["d.r"] > time.time() - 60
    for place in ("s3://not-there/", "no place"):
        monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", place)
        assert stored.read("reports", "d.r.json") == b"the first try", "what is here is shown"


def test_what_no_pass_published_was_not_cleaned():
    from hardpack_airflow.run_view import tables_of, verdict

    report = run_report(errors=["3 of 3 units did not reach the end, see their tasks"])
    unpublished = report.model_copy(
        update={"phase_one": [one.model_copy(update={"snapshot": None}) for one in report.phase_one], "phase_two": []}
    )
    assert verdict(unpublished, tables_of(unpublished)).startswith("Nothing was cleaned, 1 with a broken guarantee")
    assert verdict(report, tables_of(report)).startswith("1 table cleaned")


def test_s3_that_refuses_is_a_sentence(client, topics, bucket, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://not-there/lake/")
    answer = client.get("/reports")
    assert answer.status_code == 503
    assert "reports_s3 cannot be read" in answer.text
    # a table's own page has the rest
    answer = client.get(f"/tables/{topics[0]}")
    assert (answer.status_code, "reports_s3 cannot be read" in answer.text) == (200, True)


def test_lists_read_a_report_once_and_keep_little_of_it(client, topics, tmp_path, monkeypatch):
    """A run may clean thousands of tables of a hundred logs, and a page shows fifty runs."""
    from hardpack_airflow import report_pages

    (tmp_path / "reports").mkdir()
    one = run_report().phase_one[0]
    many = [one.model_copy(update={"table": f"db.t{n}"}) for n in range(200)]
    mine = one.model_copy(update={"table": topics[0]})
    report = run_report(errors=[]).model_copy(update={"phase_one": [*many, mine], "phase_two": [], "verify": []})
    file = tmp_path / "reports" / "one.json"
    file.write_text(report.model_dump_json())
    read, real = [], report_pages._report
    monkeypatch.setattr(report_pages, "_report", lambda name: read.append(name) or real(name))
    report_pages._brief.cache_clear()
    for _ in range(2):
        assert "60 rows removed" in client.get(f"/tables/{topics[0]}").text
        assert "201 tables cleaned" in client.get("/reports").text
    assert "<h2>Runs</h2>" not in client.get(f"/tables/{topics[1]}").text
    assert read == ["one"]
    kept = report_pages._in_brief("one", file.stat().st_mtime)
    assert len(pickle.dumps(kept)) < file.stat().st_size / 10
    # the run was cleared, and went again
    file.write_text(report.model_copy(update={"phase_one": [mine]}).model_dump_json())
    os.utime(file, (1, 1))
    assert "1 table cleaned" in client.get("/reports").text
