"""`hardpack doctor` on real catalogs and S3-compatible storage: both engines write, clean and read one table."""

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from urllib.parse import urlparse

import pytest
from hardpack.errors import Unavailable
from hardpack.files.key_filter import FOLDER as KEY_FILTERS
from hardpack.files.key_filter import filter_name
from hardpack.table.catalog import open_catalog, open_table
from pyiceberg.catalog import load_catalog
from sqlalchemy import create_engine, text

from tests.conftest import CATALOG
from tests.production.conftest import files_with
from tests.topics import name_of, new_topic, offsets, superseded_once

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
DOCTOR = [str(Path(sys.executable).with_name("hardpack")), "doctor", "--json"]
CHECKS = 9


def examine(env):
    done = subprocess.run(DOCTOR, env=env, cwd=env["HARDPACK_HOME"], capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stdout + done.stderr
    return done, json.loads(done.stdout)["findings"] if done.stdout else []


def all_well(env, secrets):
    done, findings = examine(env)
    assert [f for f in findings if not f["well"]] == []
    assert len(findings) == CHECKS
    assert done.returncode == 0
    assert not any(secret in done.stdout + done.stderr for secret in secrets)
    assert files_with(Path(env["HARDPACK_HOME"]), secrets) == []


def all_well_on_s3(env, storage, secrets):
    all_well(env, [*secrets, storage.secret_key])
    listed = storage.client.list_objects_v2(Bucket="lake").get("Contents", [])
    assert [o["Key"] for o in listed if "hardpack_doctor" in o["Key"]] == []


@pytest.mark.postgres
def test_postgresql_and_local_files(postgres, production_home, tmp_path):
    (tmp_path / "warehouse").mkdir()
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    env = production_home({"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"})
    all_well(env, [postgres.password])
    assert not list((tmp_path / "warehouse").rglob("*.*"))


def test_postgresql_and_s3(postgres, storage, production_home):
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    env = production_home({"type": "sql", "uri": uri, "warehouse": "s3://lake/sql", **storage.properties})
    all_well_on_s3(env, storage, [postgres.password])


def test_rest_and_s3(rest, storage, production_home):
    env = production_home({**rest.properties, **storage.properties})
    all_well_on_s3(env, storage, [])


def test_glue_and_s3(glue, storage, production_home):
    env = production_home({**glue.properties, **storage.properties}) | glue.environment
    all_well_on_s3(env, storage, [])


@pytest.mark.postgres
def test_a_wrong_password_is_one_sentence_without_it(postgres, production_home):
    uri = postgres.url("postgres").replace(postgres.password, "s3cr3t-and-wrong")
    done, _ = examine(production_home({"type": "sql", "uri": uri, "warehouse": "s3://lake/sql"}))
    assert done.returncode == 5
    assert "password authentication failed" in done.stderr
    assert "s3cr3t-and-wrong" not in done.stderr


def test_a_storage_that_refuses_is_named(postgres, storage, production_home):
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    wrong = storage.properties | {"s3.secret-access-key": "s3cr3t-and-wrong"}
    done, findings = examine(production_home({"type": "sql", "uri": uri, "warehouse": "s3://lake/x", **wrong}))
    assert [f["check"] for f in findings if not f["well"]] == ["write by pyiceberg"]
    assert done.returncode in (2, 5)
    assert "s3cr3t-and-wrong" not in done.stdout


def test_maintenance_on_s3(postgres, storage, production_home):
    """Hadoop has no file system for s3://, by which Iceberg looks for orphans when it is not told otherwise."""
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    properties = {"type": "sql", "uri": uri, "warehouse": "s3://lake/kept", **storage.properties}
    env = production_home(properties)
    table = superseded_once(load_catalog(CATALOG, **properties))
    folder = urlparse(table.location()).path.lstrip("/")
    strays = [f"{folder}/data/hardpack-stray.parquet", f"{folder}/{KEY_FILTERS}/{filter_name('gone')}"]
    for key in strays:
        storage.client.put_object(Bucket="lake", Key=key, Body=b"x")
        os.utime(storage.folder / "buckets" / "lake" / key, (1000, 1000))
    maintain = [DOCTOR[0], "maintain", name_of(table), "--json"]
    done = subprocess.run(maintain, env=env, cwd=env["HARDPACK_HOME"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["orphans_deleted"], report["filters_deleted"]) == (1, 1)
    listed = {o["Key"] for o in storage.client.list_objects_v2(Bucket="lake", Prefix=folder)["Contents"]}
    assert listed.isdisjoint(strays)
    assert offsets(table) == [0, 1, 2, 3, 4]


@pytest.mark.postgres
def test_a_locked_catalog_is_not_waited_for(postgres, tmp_path):
    uri = postgres.create(f"lake_{uuid.uuid4().hex}")
    given = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}", "hardpack.timeout-seconds": "2"}
    opened = open_catalog("locked", given)
    name = name_of(new_topic(opened))
    with create_engine(uri).connect() as other:
        other.execute(text("LOCK TABLE iceberg_tables IN ACCESS EXCLUSIVE MODE"))
        started = time.monotonic()
        with pytest.raises(Unavailable, match=name):
            open_table(opened, name)
        assert time.monotonic() - started < 30
    assert open_table(opened, name)
    opened.close()
