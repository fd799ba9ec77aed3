"""Plans and results go through XCom while they are few, else through files that any worker can read."""

import json

import pytest

pytestmark = pytest.mark.dags
UNITS = [{"label": f"db.table_{n} " + "0," * 90, "plans": [json.dumps({"table": f"db.t{n}", "rest": "x" * 5000})]}
         for n in range(500)]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return tmp_path / "home"


def test_few_plans_are_handed_on_as_they_are(home):
    from hardpack_airflow.handover import plans_handed_on, plans_of

    handed = plans_handed_on(UNITS[:3], "hardpack", "run")
    assert handed == UNITS[:3]
    assert [plans_of(unit) for unit in handed] == [unit["plans"] for unit in UNITS[:3]]
    assert not (home / "plans").exists()


def test_many_plans_are_handed_on_by_name_and_fit_airflows_database(home):
    from hardpack_airflow.handover import plans_handed_on, plans_of

    handed = plans_handed_on(UNITS, "hardpack", "manual__2026-01-01T00:00:00+00:00")
    assert len(json.dumps(handed)) < 100_000
    assert [plans_of(unit) for unit in handed] == [unit["plans"] for unit in UNITS]
    assert all(unit["label"].startswith(f"db.table_{n} ") for n, unit in enumerate(handed))


def test_a_worker_without_the_folder_gets_them_from_s3_or_says_what_is_missing(home, monkeypatch, tmp_path):
    import boto3
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow.handover import plans_handed_on, plans_of
    from moto import mock_aws

    here = plans_handed_on(UNITS, "hardpack", "first")
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(AirflowFailException, match="is not here, which an earlier task of the run has written"):
        plans_of(here[0])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://reports/some/place")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="reports")
        monkeypatch.setenv("HARDPACK_HOME", str(home))
        there = plans_handed_on(UNITS, "hardpack", "second")
        monkeypatch.setenv("HARDPACK_HOME", str(tmp_path / "elsewhere"))
        assert plans_of(there[7]) == UNITS[7]["plans"]
        with pytest.raises(AirflowFailException, match=r"is neither here nor in s3://reports/some/place"):
            plans_of(here[7])


def test_results_are_handed_on_likewise(home):
    from hardpack_airflow.handover import results_handed_on, results_of

    few, many = ([{"table": f"db.t{n}", "rest": "x" * 3000} for n in range(number)] for number in (3, 50))
    assert results_of(None) == []
    assert results_handed_on(few, "hardpack", "run", "unit.verify.0") == few == results_of(few)
    handed = [results_handed_on(many[at:], "hardpack", "run", f"unit.verify.{at}") for at in (0, 1)]
    assert handed[0] != handed[1]
    assert [results_of(json.loads(json.dumps(one))) for one in handed] == [many, many[1:]]
    # what another try of a task leaves is never taken for what the one before left, on whatever disk that lies
    again = results_handed_on(many[2:], "hardpack", "run", "unit.verify.0")
    assert again != handed[0]
    assert (results_of(again), results_of(handed[0])) == (many[2:], many)


def test_a_storage_that_does_not_answer_is_asked_again_and_ends_no_work_that_is_done(home, monkeypatch, tmp_path):
    """A pass is published by then; and what a refused one has to say must not be lost."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from hardpack_airflow import s3_copy
    from hardpack_airflow.handover import plans_handed_on, results_handed_on, results_of

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AIRFLOW__HARDPACK__REPORTS_S3", "s3://reports/some/place")
    monkeypatch.setattr(s3_copy, "MANY", 1)
    s3_copy._client.cache_clear()
    many = [{"table": f"db.t{n}", "rest": "x" * 3000} for n in range(50)]
    # nothing is done before there are plans, so that another try of the task costs little
    with pytest.raises(AirflowException) as unplanned:
        plans_handed_on(UNITS, "d", "r")
    results = results_handed_on(many, "d", "r", "unit.verify.0")
    # on the same disk nobody needs a copy
    assert results_of(results) == many
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(AirflowException, match="reports_s3 cannot be read") as unread:
        results_of(results)
    assert not any(isinstance(told.value, AirflowFailException) for told in (unplanned, unread))
    s3_copy._client.cache_clear()
