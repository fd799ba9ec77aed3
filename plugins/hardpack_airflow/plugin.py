"""What Airflow loads by the entry point `airflow.plugins`: the pages in its menu and the links of tasks."""

from airflow.plugins_manager import AirflowPlugin

from hardpack_airflow.config import PREFIX
from hardpack_airflow.links import DataDocsLink, SparkLink, TableLink
from hardpack_airflow.web import app


class HardpackPlugin(AirflowPlugin):
    """The pages in Airflow's menu, and the links from a task to its table and to its page of Data Docs."""

    name = "hardpack"
    fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "hardpack"}]
    external_views = [
        {
            "name": "Compaction",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "hardpack",
            "category": "browse",
        }
    ]
    operator_extra_links = [DataDocsLink(), TableLink(), SparkLink()]
