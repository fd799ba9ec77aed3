"""A real Airflow on loopback over a lakehouse of its own, for tests that look at it from outside."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

ROLES = {"admin": "admin", "vera": "viewer"}


@dataclass
class Site:
    """The running Airflow, the catalog its tasks use, and hardpack's home."""

    airflow: object
    catalog: object
    home: Path

    def run(self, tables, **conf):
        """Trigger the DAG and wait; state of the run and of its tasks."""
        run = self.airflow.trigger("hardpack", {"tables": tables} | conf)
        states = dict(self.airflow.watch("hardpack", run))
        return run, states.pop(""), states


@pytest.fixture(scope="module")
def site(tmp_path_factory, request):
    """On the schedule that the module names in SCHEDULE, else none; by the policy file that it has in POLICIES.

    PLUGINS has by name the text of modules in Airflow's folder of plugins.
    """
    from hardpack_airflow.demo.lakehouse import make_lakehouse
    from hardpack_airflow.demo.local_airflow import LocalAirflow
    from pyiceberg.catalog import load_catalog

    from infra.services.process import free_ports

    home = tmp_path_factory.mktemp("site")
    (home / "jars").symlink_to(ROOT / ".hardpack" / "jars")
    if policies := getattr(request.module, "POLICIES", ""):
        (home / "hardpack.yaml").write_text(policies)
    properties = make_lakehouse(home, home)
    settings = {"tables": "t.*", "schedule": getattr(request.module, "SCHEDULE", "")}
    airflow = LocalAirflow(home, free_ports(1)[0], settings, home, ROLES)
    for name, text in getattr(request.module, "PLUGINS", {}).items():
        plugin = airflow.folder / "plugins" / f"{name}.py"
        plugin.parent.mkdir(parents=True, exist_ok=True)
        plugin.write_text(text)
    try:
        airflow.start()
        airflow.prepare("hardpack", paused=True)
        yield Site(airflow, load_catalog("hardpack", **properties), home)
    finally:
        airflow.stop()
