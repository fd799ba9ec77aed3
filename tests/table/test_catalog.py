"""Spark's catalog settings are derived from pyiceberg's."""

from types import SimpleNamespace

import pytest
from hardpack.errors import BadInput, Unavailable
from hardpack.spark.catalog_conf import spark_conf
from hardpack.table.catalog import find_tables, open_catalog
from hardpack.table.redaction import without_secrets
from pyiceberg.exceptions import NoSuchNamespaceError

P = "spark.sql.catalog.lake"


def conf(**properties):
    return spark_conf(SimpleNamespace(name="lake", properties=properties))


def test_sqlite_becomes_jdbc_with_a_busy_timeout():
    # pyiceberg reads a type in any case
    found = conf(type="SQL", uri="sqlite:////data/cat.db", warehouse="file:///data/wh")
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


def test_spark_asks_a_rest_catalog_for_lent_credentials_as_pyiceberg_does():
    asked = f"{P}.header.X-Iceberg-Access-Delegation"
    assert conf(type="rest", uri="http://c")[asked] == "vended-credentials"
    assert asked not in conf(type="sql", uri="sqlite:////cat.db")
    given = conf(type="rest", uri="http://c", **{"header.x-iceberg-access-delegation": "remote-signing"})
    assert [v for k, v in given.items() if "delegation" in k.lower()] == ["remote-signing"]


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        (
            {
                "type": "oauth2",
                "oauth2": {"client_id": "a", "client_secret": "b", "token_url": "http://t", "scope": "s"},
            },
            {"credential": "a:b", "oauth2-server-uri": "http://t", "scope": "s"},
        ),
        (
            {"type": "basic", "basic": {"username": "ann", "password": "pw"}},
            {"rest.auth.type": "basic", "rest.auth.basic.username": "ann", "rest.auth.basic.password": "pw"},
        ),
        ({"type": "noop"}, {"rest.auth.type": "none"}),
    ],
)
def test_spark_signs_in_to_a_rest_catalog_as_pyiceberg_does(auth, told):
    found = conf(type="rest", uri="http://c", auth=auth)
    assert {name: found[f"{P}.{name}"] for name in told} == told


def test_a_way_to_sign_in_that_spark_has_not_is_refused():
    with pytest.raises(BadInput, match=r"signs in by auth.type=entra, which Spark has not; expected oauth2, basic"):
        conf(type="rest", uri="http://c", auth={"type": "entra", "entra": {}})
    own = conf(type="rest", uri="http://c", auth={"type": "entra"}, **{"rest.auth.type": "google"})
    assert own[f"{P}.rest.auth.type"] == "google"


S3 = {"s3.endpoint": "http://s:1", "s3.region": "eu-1", "s3.access-key-id": "a", "s3.secret-access-key": "b"}


def test_storage_is_found_by_spark_as_by_pyiceberg():
    found = conf(type="rest", uri="http://r/", warehouse="s3://lake/w", **S3)
    assert found[f"{P}.client.region"] == "eu-1"
    assert found[f"{P}.s3.path-style-access"] == "true", "pyiceberg's way unless it is told otherwise"
    assert (found[f"{P}.s3.access-key-id"], found[f"{P}.s3.secret-access-key"]) == ("a", "b")
    virtual = conf(type="rest", uri="http://r/", **S3, **{"s3.force-virtual-addressing": "true"})
    assert virtual[f"{P}.s3.path-style-access"] == "false"
    shared = conf(type="rest", uri="http://r/", **{"client.access-key-id": "c", "client.secret-access-key": "d"})
    assert (shared[f"{P}.s3.access-key-id"], shared[f"{P}.s3.secret-access-key"]) == ("c", "d")


def test_what_bounds_a_rest_client_and_what_its_gateway_asks_for_is_handed_on():
    given = {"rest.client.socket-timeout-ms": "60000", "header.Authorization": "Basic x", "header.X-Api-Key": "y7"}
    found = conf(type="rest", uri="http://r/", **given)
    assert {name: found[f"{P}.{name}"] for name in given} == given
    assert without_secrets("sent Basic x and y7", given) == "sent *** and ***"


def test_glue_is_asked_at_its_endpoint_in_its_region():
    given = {"glue.endpoint": "http://g", "glue.region": "eu-2", "glue.id": "1", "warehouse": "s3://lake/w"}
    found = conf(type="glue", **given)
    assert (found[f"{P}.type"], found[f"{P}.glue.endpoint"], found[f"{P}.glue.id"]) == ("glue", "http://g", "1")
    assert found[f"{P}.client.region"] == "eu-2"
    assert f"{P}.uri" not in found


def test_credentials_are_struck_out_of_what_is_said():
    given = {
        "uri": "postgresql://ann:p%40ss@db/x",
        "s3.secret-access-key": "hush",
        "credential": "id:word",
        "token": "",
    }
    said = without_secrets("no login ann:p%40ss@db with hush and id:word", given)
    assert said == "no login ann:***@db with *** and ***"


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


def test_a_namespace_that_is_dropped_meanwhile_has_no_tables():
    class Rest:
        name = "lake"

        def list_namespaces(self, within=()):
            return [] if within else [("gone",), ("shop",)]

        def list_tables(self, namespace):
            if namespace == ("gone",):
                raise NoSuchNamespaceError("gone")
            return [(*namespace, "orders")]

    assert find_tables(Rest(), "*.*") == ["shop.orders"]
