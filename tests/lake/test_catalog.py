"""Spark's catalog settings are derived from pyiceberg's."""

from types import SimpleNamespace

import pytest
from hardpack.errors import BadInput, Unavailable
from hardpack.lake.catalog import find_tables, open_catalog, spark_conf

P = "spark.sql.catalog.lake"


def conf(**properties):
    return spark_conf(SimpleNamespace(name="lake", properties=properties))


def test_sqlite_becomes_jdbc_with_a_busy_timeout():
    found = conf(type="sql", uri="sqlite:////data/cat.db", warehouse="file:///data/wh")
    assert found[P] == "org.apache.iceberg.spark.SparkCatalog"
    assert found[f"{P}.type"] == "jdbc"
    assert found[f"{P}.uri"] == "jdbc:sqlite:/data/cat.db?busy_timeout=30000"
    assert found[f"{P}.warehouse"] == "file:///data/wh"


def test_postgres_keeps_its_login_apart_from_the_address():
    found = conf(type="sql", uri="postgresql+psycopg2://ann:pw@db:5433/ice", warehouse="s3://lake/")
    assert found[f"{P}.uri"] == "jdbc:postgresql://db:5433/ice"
    assert (found[f"{P}.jdbc.user"], found[f"{P}.jdbc.password"]) == ("ann", "pw")
    assert found[f"{P}.io-impl"].endswith("S3FileIO")


def test_rest_passes_credentials_and_storage_on():
    found = conf(uri="http://127.0.0.1:19120/iceberg/", warehouse="w", credential="a:b", **{"s3.endpoint": "http://s"})
    assert (found[f"{P}.type"], found[f"{P}.credential"], found[f"{P}.s3.endpoint"]) == ("rest", "a:b", "http://s")


def test_another_type_is_refused():
    with pytest.raises(BadInput, match="expected sql, rest, hive or glue"):
        conf(type="dynamodb")


def test_a_catalog_that_is_not_there_is_one_sentence(tmp_path):
    gone = {"type": "sql", "uri": f"sqlite:///{tmp_path}/no/such/folder/cat.db", "warehouse": "file:///x"}
    with pytest.raises(Unavailable, match="catalog 'lake' cannot be opened") as caught:
        open_catalog("lake", gone)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 5


def test_a_catalog_nobody_configured_is_bad_input():
    with pytest.raises(BadInput, match="catalog 'nowhere' cannot be opened"):
        open_catalog("nowhere")


def test_a_glob_finds_tables_and_a_name_stands_for_itself(catalog):
    from tests.topics import name_of, new_topic

    table = name_of(new_topic(catalog))
    assert table in find_tables(catalog, "t.*")
    assert find_tables(catalog, "no.such") == ["no.such"]
