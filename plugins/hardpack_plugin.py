"""Registers hardpack with Airflow; everything else is in the installed package hardpack_airflow."""

from airflow.plugins_manager import AirflowPlugin
from hardpack_airflow.docs import PREFIX, app
from hardpack_airflow.links import DataDocsLink


class HardpackPlugin(AirflowPlugin):
    """Data Docs in Airflow's menu, and the link from a task to its own page."""

    name = "hardpack"
    fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "hardpack"}]
    external_views = [
        {
            "name": "Data Docs",
            "href": f"{PREFIX}/docs/index.html",
            "destination": "nav",
            "url_route": "hardpack-docs",
            "category": "browse",
        }
    ]
    operator_extra_links = [DataDocsLink()]
