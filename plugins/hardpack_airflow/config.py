"""hardpack's section of Airflow's own configuration: `[hardpack]` in airflow.cfg, or AIRFLOW__HARDPACK__NAME."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from hardpack_airflow.airflow_names import FRAMES_DEEP, conf
from hardpack_airflow.provider import OPTIONS, SECTION

if TYPE_CHECKING:
    from hardpack.policy import Policy

MOUNT = "/hardpack"
"""The path of hardpack's pages on Airflow's server."""


def setting(name: str) -> str:
    """Returns a setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=OPTIONS[name][0]))


def base_url() -> str:
    """Returns Airflow's own address, empty where none is set."""
    return str(conf.get("api", "base_url", fallback="") or "")


def airflow_path(path: str) -> str:
    """Returns the path by which a browser asks for a page of Airflow: it begins with the path of `[api] base_url`."""
    return f"{urlsplit(base_url()).path.rstrip('/')}{path}"


def page_path(path: str) -> str:
    """Returns the path by which a browser asks for one of hardpack's pages."""
    return airflow_path(f"{MOUNT}{path}")


def framed_path(path: str) -> str:
    """Returns the path of one of hardpack's pages inside Airflow's frame, or of the page alone before Airflow 3.3."""
    return airflow_path(f"/plugin{MOUNT}{page_path(path)}") if FRAMES_DEEP else page_path(path)


def catalogs() -> list[str]:
    """Returns the catalogs of all policies, as pyiceberg's configuration names them: at least one, the usual one first.

    The usual one is `[hardpack] catalog` when a policy names it, or when no policy names any. Otherwise it is the first
    catalog that a policy names.

    Raises:
        BadInput: the policy file cannot be read.
    """
    from hardpack.policy.file import policies_in_force

    policies, usual = policies_in_force(), setting("catalog")
    named = policies.catalogs if policies else []
    return sorted(named, key=lambda name: name != usual) or [usual]


_SHOWN: list[str] = []
"""The catalogs of the last time that the policy file could be read."""


def shown_catalogs() -> list[str]:
    """Returns `catalogs()`. While the policy file cannot be read, returns those of the last time it could be."""
    from hardpack.errors import BadInput

    with suppress(BadInput):  # each look at the tables reports this error
        _SHOWN[:] = catalogs()
    return list(_SHOWN) or [setting("catalog")]


def usual_catalog() -> str:
    """Returns the catalog for a policy, task or address that names none."""
    return shown_catalogs()[0]


def catalog_query(catalog: str, joint: str) -> str:
    """Returns the part of an address that names a catalog.

    It is empty for the usual catalog, and for one that is no longer among `shown_catalogs`.

    Args:
        catalog: its name.
        joint: `?` or `&`, which begins the part.
    """
    return f"{joint}catalog={quote(catalog)}" if catalog in shown_catalogs()[1:] else ""


def default_policy() -> Policy:
    """Returns the policy that the section `[hardpack]` makes; it is the only one where there is no policy file.

    Raises:
        BadInput: a setting of the section is wrong.
    """
    return _policy_of(globs(setting("tables")), "schedule", "unit_bytes", "unit_timeout_ms", "pool")


def unit_timeout() -> timedelta:
    """Returns how long a Spark application outside a policy's runs may take.

    Raises:
        BadInput: the setting is wrong.
    """
    return timedelta(milliseconds=_policy_of(["*.*"], "unit_timeout_ms").unit_timeout_ms)


def _policy_of(tables: list[str], *names: str) -> Policy:
    """Returns a policy of these tables, made of the named settings of the section `[hardpack]`."""
    from hardpack.errors import BadInput
    from hardpack.policy import Policy
    from pydantic import ValidationError

    given = {name: setting(name) for name in names}
    try:
        return Policy.model_validate({"name": "hardpack", "tables": tables, **given})
    except ValidationError as error:
        wrong = [
            f"{name} is {given.get(name, tables)!r}: {str(one.get('ctx', {}).get('error') or one['msg']).rstrip('.')}"
            for one in error.errors(include_url=False)
            for name in map(str, one["loc"][:1])
        ]
        raise BadInput(f"{'; '.join(wrong)}.") from None


def globs(text: str) -> list[str]:
    """Returns the tables or globs of a list with commas; a comma inside brackets belongs to its glob."""
    return [name for part in re.findall(r"(?:\[[^\]]*\]|[^,])+", text) if (name := part.strip())]


def glob_of(table: str) -> str:
    """Returns a glob that matches this table alone: its name, with `[`, `*`, `?` and commas put in brackets."""
    return re.sub(r"[\[*?,]", r"[\g<0>]", table)
