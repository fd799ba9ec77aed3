"""Where the links of tasks lead."""

import pytest

pytestmark = pytest.mark.dags


def test_links_of_a_task_quote_what_they_name(monkeypatch):
    from airflow.sdk.execution_time.xcom import XCom
    from hardpack_airflow.links import TableLink

    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{"table": "db.a/b c"}])
    assert TableLink().get_link(None, ti_key=None) == "/plugin/hardpack/hardpack/tables/db.a/b%20c"
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{"table": "db.a"}, {"table": "db.b"}])
    assert TableLink().get_link(None, ti_key=None) == "/plugin/hardpack/hardpack/"
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: None)
    assert TableLink().get_link(None, ti_key=None) == ""


def test_the_link_to_spark_leads_where_the_setting_says(monkeypatch):
    from airflow.sdk.execution_time.xcom import XCom
    from hardpack_airflow.links import SparkLink

    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{"error": ""}, {"spark_application": "local-17"}])
    assert SparkLink().get_link(None, ti_key=None) == ""
    monkeypatch.setenv("AIRFLOW__HARDPACK__SPARK_UI", "https://history/history/{application}/jobs")
    assert SparkLink().get_link(None, ti_key=None) == "https://history/history/local-17/jobs"
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: [{}])
    assert SparkLink().get_link(None, ti_key=None) == ""


def test_the_link_to_data_docs_leads_to_the_page_or_to_the_list_of_several(monkeypatch):
    from airflow.sdk.execution_time.xcom import XCom
    from hardpack_airflow.links import DataDocsLink

    for pages, address in (
        ([""], ""),
        (["/home/data_docs/validations/a b.html"], "/plugin/hardpack/hardpack/docs/validations/a%20b.html"),
        ([["/home/data_docs/validations/a.html"]], "/plugin/hardpack/hardpack/docs/validations/a.html"),
        (["", "/home/data_docs/validations/a.html"], "/plugin/hardpack/hardpack/docs/validations/a.html"),
        (
            ["/home/data_docs/validations/a.html", ["/home/data_docs/validations/b.html"]],
            "/plugin/hardpack/hardpack/reports",
        ),
    ):
        monkeypatch.setattr(XCom, "get_value", lambda ti_key, key, pages=pages: [{"data_docs": p} for p in pages])
        assert DataDocsLink().get_link(None, ti_key=None) == address
