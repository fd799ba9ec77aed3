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
"""Where our pages lie on Airflow's server."""


def setting(name: str) -> str:
    """Returns a setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=OPTIONS[name][0]))


def base_url() -> str:
    """Returns Airflow's own address, empty where none is set."""
    return str(conf.get("api", "base_url", fallback="") or "")


def airflow_path(path: str) -> str:
    """Returns a page of Airflow as a browser asks for it: behind the path that `[api] base_url` may have."""
    return f"{urlsplit(base_url()).path.rstrip('/')}{path}"


def page_path(path: str) -> str:
    """Returns a page of ours as a browser asks for it."""
    return airflow_path(f"{MOUNT}{path}")


def framed_path(path: str) -> str:
    """Returns a page of ours inside Airflow's frame, where this Airflow can open a page there; else the page alone."""
    return airflow_path(f"/plugin{MOUNT}{page_path(path)}") if FRAMES_DEEP else page_path(path)


def catalogs() -> list[str]:
    """Returns the catalogs of all policies, as pyiceberg's configuration names them: at least one, the usual one first.

    The usual one is that of the section where a policy names it, or none names any; else the first that one names.

    Raises:
        BadInput: the policy file cannot be read.
    """
    from hardpack.policy.file import policies_in_force

    policies, usual = policies_in_force(), setting("catalog")
    named = policies.catalogs if policies else []
    return sorted(named, key=lambda name: name != usual) or [usual]


_SHOWN: list[str] = []
"""The catalogs when the policy file could be read last."""


def shown_catalogs() -> list[str]:
    """Returns the catalogs, while the policy file cannot be read those of before."""
    from hardpack.errors import BadInput

    with suppress(BadInput):  # each look at the tables says it
        _SHOWN[:] = catalogs()
    return list(_SHOWN) or [setting("catalog")]


def usual_catalog() -> str:
    """Returns the catalog of whatever names none."""
    return shown_catalogs()[0]


def catalog_query(catalog: str, joint: str) -> str:
    """Returns what names a catalog in an address, behind `?` or `&`; empty for the usual one, and for one of before."""
    return f"{joint}catalog={quote(catalog)}" if catalog in shown_catalogs()[1:] else ""


def default_policy() -> Policy:
    """Returns the one policy there is without a policy file.

    Raises:
        BadInput: a setting of the section is wrong.
    """
    return _policy_of(globs(setting("tables")), "schedule", "unit_bytes", "unit_timeout_ms", "pool")


def unit_timeout() -> timedelta:
    """Returns how long a Spark application may take that is of no policy's run.

    Raises:
        BadInput: the setting is wrong.
    """
    return timedelta(milliseconds=_policy_of(["*.*"], "unit_timeout_ms").unit_timeout_ms)


def _policy_of(tables: list[str], *names: str) -> Policy:
    """Returns the policy of tables that these settings of the section make."""
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
    """Returns tables or globs that are written with commas between; one inside brackets belongs to its glob."""
    return [name for part in re.findall(r"(?:\[[^\]]*\]|[^,])+", text) if (name := part.strip())]


def plainly(table: str) -> str:
    """Returns a glob that matches one table alone, which is its name unless that has signs of globs or commas."""
    return re.sub(r"[\[*?,]", r"[\g<0>]", table)
