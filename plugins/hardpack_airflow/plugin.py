"""What Airflow loads by the entry point `airflow.plugins`: the pages in its menu and the links of tasks."""

import asyncio
from importlib import import_module
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from hardpack_airflow.config import MOUNT, page_path
from hardpack_airflow.links import DataDocsLink, ReportLink, SparkLink, TableLink


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """Serves hardpack's pages as an ASGI application, and imports them at the first request.

    Every task of every DAG imports this plugin, and no task needs the pages.
    """
    web = await asyncio.to_thread(import_module, "hardpack_airflow.web")
    await web.app(scope, receive, send)


class HardpackPlugin(AirflowPlugin):
    """The pages in Airflow's menu, and the links from a task: Data Docs, table, Spark application and report."""

    name = "hardpack"
    fastapi_apps = [{"app": pages, "url_prefix": MOUNT, "name": "hardpack"}]
    external_views = [
        {
            "name": "Compaction",
            "href": page_path("/"),
            "destination": "nav",
            "url_route": "hardpack",
            "category": "browse",
        }
    ]
    operator_extra_links = [DataDocsLink(), TableLink(), SparkLink(), ReportLink()]
