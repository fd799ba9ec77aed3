"""What Airflow loads by the entry point `airflow.plugins`: the pages in its menu and the links of tasks."""

from airflow.plugins_manager import AirflowPlugin

from hardpack_airflow.config import MOUNT, page_path
from hardpack_airflow.links import DataDocsLink, ReportLink, SparkLink, TableLink
from hardpack_airflow.web import app


class HardpackPlugin(AirflowPlugin):
    """The pages in Airflow's menu, and the links from a task to its table and to its page of Data Docs."""

    name = "hardpack"
    fastapi_apps = [{"app": app, "url_prefix": MOUNT, "name": "hardpack"}]
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
