"""The links from a task: the page of Data Docs it wrote, its table's page, its Spark application, the run's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from hardpack_airflow.config import catalog_query, framed_path, setting
from hardpack_airflow.handover import results_of
from hardpack_airflow.s3_copy import pages_of
from hardpack_airflow.stored import path_in_docs


class DataDocsLink(BaseOperatorLink):
    """The page of Data Docs that an ended task wrote, or the list of the newest when it wrote several.

    The link is empty while there is no page.
    """

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address of the page on Airflow's own server."""
        pages = [page for result in _results(ti_key) for page in pages_of(result)]
        return framed_path("/reports") if len(pages) > 1 else docs_address(str(next(iter(pages), "")))


class TableLink(BaseOperatorLink):
    """The page of the table that an ended task worked on, or the overview of all when it worked on several."""

    name = "Table"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address on Airflow's own server; empty while the task has not ended."""
        tables = {result["table"]: result.get("catalog", "") for result in _results(ti_key) if result["table"]}
        paths = [f"/tables/{quote(name)}{catalog_query(at, '?')}" for name, at in tables.items()]
        return framed_path("/") if len(paths) > 1 else "".join(map(framed_path, paths))


class ReportLink(BaseOperatorLink):
    """The page of the run's report; made when the task `report` has ended."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address on Airflow's own server; empty while there is no report."""
        file = _result(ti_key)
        return framed_path(f"/reports/{quote(Path(file).stem)}") if file else ""


class SparkLink(BaseOperatorLink):
    """The task's Spark application at `[hardpack] spark_ui`, such as a history server; empty when that is not set."""

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the setting with the application's id in the place of `{application}`."""
        application = next((r["spark_application"] for r in _results(ti_key) if r.get("spark_application")), "")
        return setting("spark_ui").replace("{application}", application) if application else ""


def _results(ti_key: Any) -> list[dict[str, Any]]:
    """Returns a report or failure for each plan; empty while the task has not ended."""
    from hardpack_airflow.airflow_names import AirflowFailException

    try:
        return results_of(_result(ti_key))
    except AirflowFailException:  # without its results a task has no link
        return []


def _result(ti_key: Any) -> Any:
    """Returns what the task returned, None while it has not ended."""
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_value(ti_key=ti_key, key="return_value")


def docs_address(page: str) -> str:
    """Returns the address of a page of Data Docs, given its path; empty when the page lies outside `data_docs`."""
    inside = path_in_docs(page)
    return framed_path(f"/docs/{quote(inside)}") if inside else ""
