"""hardpack's section of Airflow's own configuration: `[hardpack]` in airflow.cfg, or AIRFLOW__HARDPACK__NAME."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import conf

if TYPE_CHECKING:
    from hardpack.policy import Policy

SECTION = "hardpack"
DEFAULTS = {
    "schedule": "0 * * * *",
    "tables": "*.*",
    "catalog": "hardpack",
    "unit_bytes": str(100 * 1024**3),
    "pool": "hardpack",
    "driver_memory": "2g",
    "spark_conn_id": "spark_default",
    "jobs": "",
}


def setting(name: str) -> str:
    """A setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=DEFAULTS[name]))


def default_policy() -> Policy:
    """The one policy there is without a policy file.

    Raises:
        ValidationError: a setting of the section is wrong.
    """
    from hardpack.policy import Policy

    return Policy(
        name="hardpack",
        tables=tuple(globs(setting("tables"))),
        schedule=setting("schedule"),
        unit_bytes=int(setting("unit_bytes")),
        pool=setting("pool"),
    )


def globs(text: str) -> list[str]:
    """Tables or globs written with commas between."""
    return [name for part in text.split(",") if (name := part.strip())]
