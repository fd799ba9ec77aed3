"""A disk that fills up in the middle of a pass: nothing half-written stays, and the same plan ends well."""

import random
import shutil
import subprocess
import uuid
from pathlib import Path
from urllib.parse import urlparse

import pytest
from hardpack.demo.topic import SCHEMA, SPEC

from tests.production.conftest import failure_of
from tests.topics import T0, append, offsets, row

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
