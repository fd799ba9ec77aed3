"""hardpack's section of Airflow's own configuration: `[hardpack]` in airflow.cfg, or AIRFLOW__HARDPACK__NAME."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardpack_airflow.airflow_names import conf
from hardpack_airflow.provider import OPTIONS, SECTION

if TYPE_CHECKING:
    from hardpack.policy import Policy

PREFIX = "/hardpack"
"""Where our pages lie on Airflow's server."""


def setting(name: str) -> str:
    """Returns a setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=OPTIONS[name][0]))


def default_policy() -> Policy:
    """Returns the one policy there is without a policy file.

    Raises:
        ValidationError: a setting of the section is wrong.
    """
    from hardpack.policy import Policy

    given = {name: setting(name) for name in ("schedule", "unit_bytes", "pool")}
    return Policy.model_validate({"name": "hardpack", "tables": globs(setting("tables")), **given})


def globs(text: str) -> list[str]:
    """Tables or globs written with commas between."""
    return [name for part in text.split(",") if (name := part.strip())]
