"""A disk that fills up in the middle of a pass: nothing half-written stays, and the same plan ends well."""

import os
import random
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import urlparse

import pytest
from hardpack import Hardpack
from hardpack.demo.topic import SCHEMA, SPEC
from pyiceberg.types import BooleanType, LongType, StringType

from tests.conftest import CATALOG
from tests.production.conftest import failure_of
from tests.topics import T0, append, name_of, offsets, row, superseded_once

pytestmark = [pytest.mark.production, pytest.mark.timeout(900)]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full(hp, catalog, small_disk):
    name = f"t.full_{uuid.uuid4().hex[:8]}"
    catalog.create_namespace_if_not_exists("t")
    rules = {"hardpack.cleanup.policy": "compact"}
    table = catalog.create_table(name, SCHEMA, f"file://{small_disk}/t", SPEC, properties=rules)
    rng = random.Random(1)
    append(table, {0: [row(o, f"k{o}", rng.randbytes(500).hex()) for o in range(1500)]})
    append(table, {0: [row(1500, "k0")]})
    append(table, {0: [row(1501, "z")]})
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - 200_000))
    plan = hp.plan(name, now=T0)
    assert str(failure_of(hp, plan)).startswith("a disk is full")
    folder = Path(urlparse(table.location()).path, "data")
    known = {urlparse(p).path for p in table.refresh().inspect.all_files()["file_path"].to_pylist()}
    assert {str(p) for p in folder.rglob("*.parquet")} == known, "nothing half-written stays"
    assert len(offsets(table)) == 1502
    filler.unlink()
    hp.clean(plan)
    assert offsets(table) == list(range(1, 1502))


def test_where_reports_and_pages_go(catalog, spark, small_disk):
    table = superseded_once(catalog)
    hp = Hardpack(catalog, spark, small_disk)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free))
    plan = hp.plan(name_of(table), now=T0)
    assert str(failure_of(hp, plan)).startswith("a disk is full")
    assert offsets(table) == [0, 1, 2, 3, 4]
    # static files of the pages alone are more than three
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    hp.clean(plan)
    assert offsets(table) == [1, 2, 3, 4]


def test_where_spark_keeps_what_it_moves(catalog, lake, small_disk, tmp_path):
    table = superseded_once(catalog)
    # where rows may be of transactions they move, however few they are
    with table.transaction() as change:
        with change.update_schema() as added:
            added.add_column("pid", LongType()).add_column("tx", BooleanType()).add_column("control", StringType())
        roles = {"producer.id": "pid", "transactional": "tx", "control": "control"}
        change.set_properties({f"hardpack.column.{role}": column for role, column in roles.items()})
    append(table.refresh(), {0: [row(5, "e")]})
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    settings = {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": value for name, value in lake.items()}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("hardpack")), "clean", name_of(table), "--force"],
        env=os.environ | settings | {"SPARK_LOCAL_DIRS": str(small_disk)},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "a disk is full" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert offsets(table) == [0, 1, 2, 3, 4, 5]
