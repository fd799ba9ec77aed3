"""hardpack's section of Airflow's own configuration: `[hardpack]` in airflow.cfg, or AIRFLOW__HARDPACK__NAME."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from hardpack_airflow.airflow_names import FRAMES_DEEP, conf
from hardpack_airflow.provider import OPTIONS, SECTION

if TYPE_CHECKING:
    from hardpack.policy import Policy

MOUNT = "/hardpack"
"""Where our pages lie on Airflow's server."""


def setting(name: str) -> str:
    """Returns a setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=OPTIONS[name][0]))


def airflow_path(path: str) -> str:
    """Returns a page of Airflow as a browser asks for it: behind the path that `[api] base_url` may have."""
    return f"{urlsplit(str(conf.get('api', 'base_url', fallback='') or '')).path.rstrip('/')}{path}"


def page_path(path: str) -> str:
    """Returns a page of ours as a browser asks for it."""
    return airflow_path(f"{MOUNT}{path}")


def framed_path(path: str) -> str:
    """Returns a page of ours inside Airflow's frame, where this Airflow can open a page there; else the page alone."""
    return airflow_path(f"/plugin{MOUNT}{page_path(path)}") if FRAMES_DEEP else page_path(path)


def catalogs() -> list[str]:
    """Returns the catalogs of all policies, by their names in pyiceberg's configuration; at least one.

    Raises:
        BadInput: the policy file cannot be read.
    """
    from hardpack.policy import policies_in_force

    found = policies_in_force()
    return (found.catalogs if found else []) or [setting("catalog")]


def shown_catalogs() -> list[str]:
    """Returns the catalogs that pages show, the usual one first; its own alone while the policy file cannot be read."""
    from hardpack.errors import BadInput

    try:
        return catalogs()
    except BadInput:  # each look at the tables says it
        return [setting("catalog")]


def catalog_query(catalog: str, joint: str) -> str:
    """Returns what names a catalog in an address, behind `?` or `&`; empty for the usual one."""
    return "" if catalog in ("", shown_catalogs()[0]) else f"{joint}catalog={quote(catalog)}"


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
