"""What `doctor` says on a local disk, in health and with a clock that is wrong."""

from types import SimpleNamespace

import pytest
from hardpack.errors import Unavailable
from hardpack.operations.doctor import Doctor
from hardpack.spark.session import open_session

from tests.topics import T0

pytestmark = pytest.mark.spark


def test_all_is_well_and_nothing_is_left(hp):
    before = hp.catalog.list_namespaces()
    report = hp.doctor()
    assert [f.check for f in report.findings if not f.well] == []
    assert report.findings[-1].check == "history"
    assert report.exit_code == 0
    assert hp.catalog.list_namespaces() == before


def test_a_clock_that_is_wrong_is_one_plain_sentence(hp):
    report = Doctor(hp, lambda: T0).examine()
    ill = report.findings[-1]
    assert (ill.check, report.exit_code) == ("executors", 2)
    assert ill.found.startswith("an executor's clock says 20")
    assert ill.found.endswith("set both by NTP, as lags and delete horizons are counted by them.")


def test_a_catalog_that_spark_cannot_open_is_named(spark):
    """Iceberg would look for its tables in Spark's own catalog and complain of the name."""
    gone = SimpleNamespace(name="gone", properties={"type": "rest", "uri": "http://127.0.0.1:9/"})
    with pytest.raises(Unavailable, match="Spark cannot open catalog 'gone'"):
        open_session(gone)
