"""Our pages without a server and without a login, on the tables of the session's catalog."""

import json
import os
import sys

import pytest

from tests.conftest import ROOT
from tests.topics import append, name_of, new_topic, row


@pytest.fixture(scope="module")
def airflow_env(tmp_path_factory):
    """A home with an empty metadata database and a lakehouse of its own."""
    from hardpack_airflow.demo.lakehouse import make_lakehouse

    folder = tmp_path_factory.mktemp("airflow")
    properties = make_lakehouse(folder, folder)
    (folder / "jars").symlink_to(ROOT / ".hardpack" / "jars")
    env = os.environ | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "HARDPACK_HOME": str(folder),
        "PYICEBERG_HOME": str(folder),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
    }
    return folder, properties, env


@pytest.fixture
def own_homes(own_home, tmp_path, monkeypatch):
    """hardpack's and Airflow's, for one test."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


@pytest.fixture
def pages(own_homes, monkeypatch):
    """Our pages, open to anybody, of which nothing is remembered."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from hardpack_airflow import actions, table_cache, web

    # on a busy machine a look at all tables of the session takes longer than a person waits
    monkeypatch.setattr(table_cache, "PATIENCE_SECONDS", 60)
    # in the place of Airflow's own API, which knows no DAG here
    monkeypatch.setattr(actions, "_airflow", FastAPI)
    web._table_cache.cache_clear()
    for dependency in web.app.router.dependencies:
        web.app.dependency_overrides[dependency.dependency] = lambda: None
    yield TestClient(web.app)
    web.app.dependency_overrides.clear()
    web._table_cache.cache_clear()


@pytest.fixture
def client(catalog, pages, monkeypatch):
    """The pages, with the session's catalog for any."""
    from hardpack.table import catalog as module

    monkeypatch.setattr(module, "open_catalog", lambda name: catalog)
    return pages


@pytest.fixture
def topics(catalog):
    quiet, busy = new_topic(catalog), new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(quiet, {0: [row(0, "a")]})
    append(busy, {0: [row(0, "a")], 1: [row(0, "b")]})
    append(busy, {0: [row(1, "a")], 1: [row(1, "b")]})
    return name_of(quiet), name_of(busy)


@pytest.fixture
def bucket(monkeypatch):
    import boto3
    from hardpack_airflow.s3_copy import _client
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(
            Bucket="audit", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )  # fmt: skip
        _client.cache_clear()
        yield client
    _client.cache_clear()
