"""hardpack's section of Airflow's own configuration: `[hardpack]` in airflow.cfg, or AIRFLOW__HARDPACK__NAME."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import conf

if TYPE_CHECKING:
    from hardpack.policy import Policy

SECTION = "hardpack"
PREFIX = "/hardpack"
"""Where our pages lie on Airflow's server."""
DEFAULTS = {
    "tables": "*.*",
    "catalog": "hardpack",
    "driver_memory": "2g",
    "spark_conn_id": "spark_default",
    "spark_ui": "",
    "jobs": "",
    "maintenance_pool": "",
    "maintenance_schedule": "0 3 * * *",
    "report_days": "90",
    "reports_s3": "",
}


def setting(name: str) -> str:
    """Returns a setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=DEFAULTS[name]))


def default_policy() -> Policy:
    """Returns the one policy there is without a policy file.

    Raises:
        ValidationError: a setting of the section is wrong.
    """
    from hardpack.policy import Policy

    found = {name: conf.get(SECTION, name, fallback=None) for name in ("schedule", "unit_bytes", "pool")}
    given = {name: value for name, value in found.items() if value is not None}
    return Policy.model_validate({"name": "hardpack", "tables": globs(setting("tables")), **given})


def globs(text: str) -> list[str]:
    """Tables or globs written with commas between."""
    return [name for part in text.split(",") if (name := part.strip())]
