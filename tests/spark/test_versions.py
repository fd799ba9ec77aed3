"""What was not tested is refused when a session is opened or first used, not found out by reading whole tables."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hardpack import Hardpack
from hardpack.errors import BadInput
from hardpack.spark import session
from hardpack.spark.jars import needed
from hardpack.spark.session import fit
from hardpack.spark.versions import TESTED, fit_of

from tests.topics import name_of, new_topic


@pytest.mark.parametrize("found", ["4.2.0", "4.10.0", "3.4.3", "3.50.1"])
def test_another_spark_is_refused(found):
    with pytest.raises(BadInput, match=rf"this is Spark {found}, but hardpack works with Spark 3.5, 4.0, 4.1 only"):
        fit_of(found)


@pytest.mark.parametrize(
    ("spark", "what", "found"),
    [
        ("4.1.3", "Scala", "2.12.20"), ("3.5.8", "Scala", "2.13.9"), ("4.1.0", "Iceberg", "1.11.0"),
        ("4.0.5", "Iceberg", "1.12.0"), ("4.1.1", "Iceberg", ""), ("4.1.1", "Iceberg", "1.2.0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_spark_is_refused(spark, what, found):
    fit = fit_of(spark)
    with pytest.raises(BadInput, match=rf"this is {what} {found}, but hardpack works with Spark {spark[:3]}, Scala"):
        fit.check_iceberg(found) if what == "Iceberg" else fit.check(what, found, fit.scala)


@pytest.mark.parametrize("spark", ["4.1.0", "4.1", "4.0.5", "3.5.8"])
def test_what_was_tested_passes(spark):
    fit = fit_of(spark)
    fit.check_iceberg(fit.iceberg)
    fit.check("Scala", f"{fit.scala}.17", fit.scala)


def test_jars_are_those_of_the_spark_that_is_here(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir(mode=0o755)
    for tested in TESTED:
        (tmp_path / "jars" / f"{tested.runtime}-{tested.iceberg}.jar").touch(0o644)
    (tmp_path / "jars" / "sqlite-jdbc-3.jar").touch(0o644)
    for tested in TESTED:
        monkeypatch.setattr(session, "installed_spark", lambda tested=tested: f"{tested.spark}.2")
        assert [jar.name for jar in session.jar_paths()] == [
            f"{tested.runtime}-{tested.iceberg}.jar",
            "sqlite-jdbc-3.jar",
        ]
        assert needed(f"{tested.spark}.2")[0].file == f"{tested.runtime}-{tested.iceberg}.jar"


def test_a_given_session_is_looked_at_when_it_is_first_used(catalog, home):
    hp = Hardpack(catalog, SimpleNamespace(version="4.2.1"), home)
    name = name_of(new_topic(catalog))
    hp.tables("t.*")
    with pytest.raises(BadInput, match=r"this is Spark 4\.2\.1"):
        hp.jvm_table(name)


@pytest.mark.spark
@pytest.mark.parametrize("what", ["spark", "scala", "iceberg"])
def test_a_running_session_tells_its_versions(spark, monkeypatch, what):
    fit(spark)
    monkeypatch.setattr(session, "fit_of", lambda found: replace(fit_of(found), **{what: "9.9.9"}))
    with pytest.raises(BadInput, match=r"works with .*9\.9"):
        fit(spark)


@pytest.mark.spark
def test_no_variable_is_substituted_in_sql(spark):
    spark.conf.set("spark.sql.variable.substitute", "true")
    fit(spark)
    assert spark.sql("select '${env:HOME}' as v").collect()[0]["v"] == "${env:HOME}"
