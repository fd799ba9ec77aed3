"""Real services for a whole session, and homes whose configuration names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hardpack.failures import as_hardpack_error

from tests.conftest import CATALOG, ROOT

DOWNLOADS = ROOT / ".hardpack" / "services"


@pytest.fixture(scope="session")
def storage(tmp_path_factory):
    from infra.services.storage import Storage

    with Storage(tmp_path_factory.mktemp("s3"), DOWNLOADS) as service:
        service.client.create_bucket(Bucket="lake")
        yield service


@pytest.fixture(scope="session")
def postgres():
    from infra.services.postgres import Postgres

    with Postgres(DOWNLOADS) as service:
        yield service


@pytest.fixture(scope="session")
def rest(tmp_path_factory, storage):
    from infra.services.rest import Rest

    with Rest(tmp_path_factory.mktemp("rest"), DOWNLOADS, storage, "s3://lake/rest") as service:
        yield service


@pytest.fixture(scope="session")
def glue(tmp_path_factory, storage):
    from infra.services.glue import Glue

    with Glue(tmp_path_factory.mktemp("glue"), storage, "s3://lake/glue") as service:
        yield service


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    from infra.services.cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("spark"), workers=2, cores=1, memory="2g") as service:
        yield service


@pytest.fixture
def production_home(tmp_path) -> Callable[[dict[str, str]], dict[str, str]]:
    """Writes a home whose pyiceberg configuration has the properties given; returns what the environment must name."""
    from hardpack.spark.jars import fetch, needed
    from hardpack.spark.session import jar_paths
    from hardpack.spark.versions import installed_spark

    def make(properties: dict[str, str]) -> dict[str, str]:
        (tmp_path / "jars").mkdir()
        far = any(name.startswith("s3.") or value.startswith("s3://") for name, value in properties.items())
        more = needed(installed_spark(), production=True)[len(needed(installed_spark())) :]
        wanted = [jar for jar in more if far or "aws" not in jar.name]
        for jar in (*fetch(DOWNLOADS, wanted), *jar_paths()):
            (tmp_path / "jars" / jar.name).symlink_to(jar)
        config = tmp_path / ".pyiceberg.yaml"
        config.touch(mode=0o600)
        config.write_text(yaml.safe_dump({"catalog": {CATALOG: properties}}))
        return os.environ | {"HARDPACK_HOME": str(tmp_path), "PYICEBERG_HOME": str(tmp_path)}

    return make


def files_with(folder: Path, secrets: list[str]) -> list[Path]:
    """Files below a folder in which one of the secrets stands, but for those that are there to hold them."""
    wanted = [secret.encode() for secret in secrets]
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink() and p.name != ".pyiceberg.yaml")
    return [path for path in files if any(secret in path.read_bytes() for secret in wanted)]


def failure_of(hp, plan):
    """What a user is told of a pass that fails, whatever Spark makes of it."""
    try:
        hp.clean(plan)
    except Exception as error:
        return as_hardpack_error(error)
    raise AssertionError("the pass went well")
