"""What a company does: plain pip into an empty environment, and the main job from there with no checkout at hand."""

import json
import sys
import time

import pytest

from tests.conftest import ROOT
from tests.install.company import Company, build

pytestmark = [pytest.mark.install, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    wheel = build(tmp_path_factory.mktemp("wheel"), sys.executable)
    made = Company.of(tmp_path_factory.mktemp("company"), sys.executable, f"{wheel}[airflow,demo]")
    print(f"\npip install 'hardpack[airflow,demo]': {made.seconds:.0f} s, downloads included")
    return made


def test_pip_leaves_a_whole_environment(company):
    company.run("pip", "check")
    versions = {
        package["name"]: package["version"] for package in json.loads(company.run("pip", "list", "--format=json"))
    }
    assert versions["pyspark"] == versions["pyspark-client"]
    assert company.run("hardpack", "--version").startswith("hardpack ")


def test_the_first_table_is_compacted_through_that_airflow(company):
    began = time.monotonic()
    said = company.main_job()
    took = time.monotonic() - began
    print(f"\nhardpack jars and the main job, downloads included: {took:.0f} s\n{said}")
    assert "demo.flights: every guarantee holds" in said
    assert took < 300
    assert str(ROOT) not in said
    assert (company.folder / "work" / ".hardpack" / "reports").is_dir()
