"""The links from a task: the page of Data Docs it wrote, its table's page, its Spark application."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from hardpack_airflow.config import setting


class DataDocsLink(BaseOperatorLink):
    """Made when the task has ended; empty while there is no page."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Address of the page on Airflow's own server."""
        from airflow.sdk.execution_time.xcom import XCom

        report = XCom.get_value(ti_key=ti_key, key="return_value") or {}
        pages = report.get("data_docs") or ""
        page = pages if isinstance(pages, str) else next(iter(pages), "")
        return docs_address(page)


class TableLink(BaseOperatorLink):
    """The page of the table that the task worked on; made when the task has ended."""

    name = "Table"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Address on Airflow's own server."""
        from airflow.sdk.execution_time.xcom import XCom

        report = XCom.get_value(ti_key=ti_key, key="return_value") or {}
        return f"/hardpack/tables/{quote(report['table'], safe='')}" if report.get("table") else ""


class SparkLink(BaseOperatorLink):
    """The task's Spark application where `[hardpack] spark_ui` says, such as a history server; empty without it."""

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The setting with the application's id in the place of `{application}`."""
        from airflow.sdk.execution_time.xcom import XCom

        report = XCom.get_value(ti_key=ti_key, key="return_value") or {}
        application = report.get("spark_application")
        return setting("spark_ui").replace("{application}", application) if application else ""


def docs_address(page: str) -> str:
    """Address of a page given as a path inside a folder `data_docs`."""
    _, inside, rest = page.partition("/data_docs/")
    return f"/hardpack/docs/{quote(rest)}" if inside else ""
