"""The links from a task: the page of Data Docs it wrote, its table's page, its Spark application."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from hardpack_airflow.config import PREFIX, setting


class DataDocsLink(BaseOperatorLink):
    """Made when the task has ended; empty while there is no page."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Address of the page on Airflow's own server."""
        pages = _report(ti_key).get("data_docs") or ""
        page = pages if isinstance(pages, str) else next(iter(pages), "")
        return docs_address(page)


class TableLink(BaseOperatorLink):
    """The page of the table that the task worked on; made when the task has ended."""

    name = "Table"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Address on Airflow's own server."""
        table = _report(ti_key).get("table")
        return f"{PREFIX}/tables/{quote(table, safe='')}" if table else ""


class SparkLink(BaseOperatorLink):
    """The task's Spark application where `[hardpack] spark_ui` says, such as a history server; empty without it."""

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The setting with the application's id in the place of `{application}`."""
        application = _report(ti_key).get("spark_application")
        return setting("spark_ui").replace("{application}", application) if application else ""


def _report(ti_key: Any) -> dict[str, Any]:
    """What the task returned; empty while it has not ended."""
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_value(ti_key=ti_key, key="return_value") or {}


def docs_address(page: str) -> str:
    """Address of a page given as a path inside a folder `data_docs`."""
    _, inside, rest = page.partition("/data_docs/")
    return f"{PREFIX}/docs/{quote(rest)}" if inside else ""
