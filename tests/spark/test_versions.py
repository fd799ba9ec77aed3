"""What was not tested is refused when a session is opened or first used, not found out by reading whole tables."""

from types import SimpleNamespace

import pytest
from hardpack import Hardpack
from hardpack.errors import BadInput
from hardpack.spark import session
from hardpack.spark.session import check_version, fit

from tests.topics import name_of, new_topic


@pytest.mark.parametrize(
    ("what", "found", "tested"),
    [
        ("Spark", "4.0.1", "4.1"), ("Spark", "3.5.7", "4.1"), ("Spark", "4.10.0", "4.1"), ("Spark", "4.2.0", "4.1"),
        ("Scala", "2.12.20", "2.13"), ("Iceberg", "1.11.0", "1.12"), ("Iceberg", "1.2.0", "1.12"), ("Iceberg", "", "1"),
    ],
)  # fmt: skip
def test_other_versions_are_refused(what, found, tested):
    with pytest.raises(BadInput, match=rf"this is {what} {found}, but hardpack works with {what} {tested} only"):
        check_version(what, found, tested)


@pytest.mark.parametrize(("found", "tested"), [("4.1.0", "4.1"), ("4.1.2", "4.1"), ("4.1", "4.1"), ("2.13.17", "2.13")])
def test_the_tested_ones_pass(found, tested):
    check_version("Spark", found, tested)


def test_a_given_session_is_looked_at_when_it_is_first_used(catalog, home):
    hp = Hardpack(catalog, SimpleNamespace(version="4.0.1"), home)
    name = name_of(new_topic(catalog))
    hp.tables("t.*")
    with pytest.raises(BadInput, match=r"this is Spark 4\.0\.1"):
        hp.jvm_table(name)


@pytest.mark.spark
@pytest.mark.parametrize("which", ["SPARK", "SCALA", "ICEBERG"])
def test_a_running_session_tells_its_versions(spark, monkeypatch, which):
    fit(spark)
    monkeypatch.setattr(session, which, "9.9")
    with pytest.raises(BadInput, match=r"works with \w+ 9\.9 only"):
        fit(spark)


@pytest.mark.spark
def test_the_runtime_tells_for_which_spark_it_was_built(spark, monkeypatch):
    monkeypatch.setattr(session, "check_version", lambda what, found, _: seen.append((what, found)))
    seen = []
    fit(spark)
    assert ("Iceberg's runtime for Spark", "4.1") in seen
    assert ("Iceberg's runtime for Scala", "2.13") in seen


@pytest.mark.spark
def test_no_variable_is_substituted_in_sql(spark):
    spark.conf.set("spark.sql.variable.substitute", "true")
    fit(spark)
    assert spark.sql("select '${env:HOME}' as v").collect()[0]["v"] == "${env:HOME}"
