"""What doctor says of the packages that are installed."""

import pytest
from hardpack.errors import BadInput
from hardpack.operations import installation


@pytest.fixture
def packages(monkeypatch):
    """Versions by name; of a package that is not named there is none."""
    found = dict.fromkeys(installation.NAMES, "1.2")

    def version(name):
        if name not in found:
            raise installation.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(installation, "version", version)
    return found


def test_what_fits_is_one_sentence(packages):
    assert installation.installed().endswith("hardpack 1.2, pyiceberg 1.2, pyarrow 1.2, pyspark 1.2")
    packages |= {"pyspark-client": "1.2", installation.AIRFLOW: "3.3.2"}
    assert installation.installed().endswith("pyspark 1.2, Airflow 3.3.2, which finds the plugin and the provider")


def test_two_versions_of_the_same_files_are_named(packages):
    packages["pyspark-client"] = "1.3"
    with pytest.raises(BadInput, match=r"pyspark 1\.2 and pyspark-client 1\.3 own the same files"):
        installation.installed()


def test_an_airflow_that_does_not_find_us_is_named(packages, monkeypatch):
    packages[installation.AIRFLOW] = "3.3.2"
    monkeypatch.setattr(installation, "entry_points", lambda group: [])
    with pytest.raises(BadInput, match=r"hardpack's entry point airflow\.plugins is not"):
        installation.installed()
