"""What Airflow asks an installed provider: its name, its parts, and its section of the configuration.

It imports the standard library alone: Airflow reads this module before Airflow itself can be imported.
"""

from __future__ import annotations

from typing import Any

SECTION = "hardpack"
OPTIONS = {
    "tables": (
        "*.*",
        "Tables or globs, with commas between, whose adopted tables a scheduled run looks at.",
    ),
    "catalog": (
        "hardpack",
        "The catalog's name in pyiceberg's configuration and in Spark.",
    ),
    "schedule": (
        "0 * * * *",
        "When runs look, as cron in UTC; empty: only by hand.",
    ),
    "unit_bytes": (
        str(100 * 1024**3),
        "Most bytes that one Spark application cleans; a larger table is cleaned in several units, and a larger log in "
        "several commits.",
    ),
    "unit_timeout_ms": (
        str(6 * 3600 * 1000),
        "Longest time of a task's Spark application, in ms, also of maintenance, of checks and of what is done by "
        "hand; a policy's own unit.timeout.ms is that of its runs.",
    ),
    "pool": (
        "hardpack",
        "Airflow's pool of which every task that runs Spark takes a slot. One slot means one cleaning at a time.",
    ),
    "driver_memory": (
        "2g",
        "Memory of each Spark driver, as spark-submit takes it.",
    ),
    "spark_conn_id": (
        "spark_default",
        "The Spark connection that tasks submit through.",
    ),
    "spark_ui": (
        "",
        "Address of a Spark application for the link of tasks; {application} stands for its id.",
    ),
    "maintenance_pool": (
        "",
        "The pool of the DAGs over all tables, maintenance and quality; empty: that of `pool`.",
    ),
    "maintenance_schedule": (
        "0 3 * * *",
        "When storage is freed, as cron in UTC; empty: only by hand.",
    ),
    "quality_schedule": (
        "",
        "When the guarantees are checked on all tables, as cron in UTC; empty: only by hand.",
    ),
    "report_days": (
        "90",
        "How many days reports and Data Docs stay.",
    ),
    "reports_s3": (
        "",
        "s3://BUCKET/PREFIX to which reports and Data Docs are copied, and from which the pages show them; empty: "
        "they stay in HARDPACK_HOME.",
    ),
    "price_per_gb_month": (
        "",
        "What a gigabyte of storage costs a month, as a number; with it the pages show what was saved in money.",
    ),
}
"""Every setting of the section: its default, and what it sets."""
LINKS = ("DataDocsLink", "TableLink", "SparkLink", "ReportLink")


def get_provider_info() -> dict[str, Any]:
    """Returns what Airflow's `provider_info.schema.json` describes."""
    options = {
        name: {
            "description": description,
            "type": "string",
            "default": default,
            "example": None,
            "version_added": "0.1.0",
        }
        for name, (default, description) in OPTIONS.items()
    }
    section = {"description": "Kafka's log compaction for Iceberg tables.", "options": options}
    modules = {"operators": ["operators"], "sensors": ["sensor", "compacted_sensor"], "triggers": ["trigger"]}
    return {
        "package-name": "hardpack",
        "name": "hardpack",
        "description": "Kafka's log compaction for Apache Iceberg tables.",
        **{
            kind: [{"integration-name": "hardpack", "python-modules": [f"hardpack_airflow.{name}" for name in names]}]
            for kind, names in modules.items()
        },
        "extra-links": [f"hardpack_airflow.links.{name}" for name in LINKS],
        "config": {SECTION: section},
    }
