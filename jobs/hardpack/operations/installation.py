"""Tells which packages are installed and whether they fit each other, from their metadata alone; imports none."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, entry_points, version

from hardpack.errors import BadInput

NAMES = ("hardpack", "pyiceberg", "pyarrow", "pyspark")
AIRFLOW = "apache-airflow-core"
ENTRY_POINTS = ("airflow.plugins", "apache_airflow_provider")
"""Groups of entry points by which Airflow finds hardpack's pages, links and settings."""


def installed() -> str:
    """Returns the versions of Python, hardpack and the packages that it works with, in one sentence.

    Raises:
        BadInput: two packages overwrite each other's files, or Airflow would not find hardpack's entry points.
    """
    spark, client = version("pyspark"), _version("pyspark-client")
    if client and client != spark:
        raise BadInput(
            f"pyspark {spark} and pyspark-client {client} own the same files, expected both at one version; mend it by "
            f"`pip install --force-reinstall --no-deps pyspark=={spark} pyspark-client=={spark}`."
        )
    said = f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in NAMES)
    airflow = _version(AIRFLOW)
    if not airflow:
        return said
    if lost := [group for group in ENTRY_POINTS if not _registered(group)]:
        raise BadInput(
            f"Airflow {airflow} is here, but hardpack's entry point {lost[0]} is not; mend it by "
            "`pip install --force-reinstall --no-deps hardpack`."
        )
    return f"{said}, Airflow {airflow}, which finds the plugin and the provider"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _registered(group: str) -> bool:
    return any(point.value.startswith("hardpack_airflow.") for point in entry_points(group=group))
