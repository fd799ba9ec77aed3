"""A file that Spark finds missing or cannot read is named, whatever step meets it; nothing is published."""

import re
from pathlib import Path

import pytest
from hardpack.errors import BadInput
from hardpack.failures import as_hardpack_error
from py4j.protocol import Py4JJavaError

from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.spark
LATER = T0 + 10**9


def missing(file):
    file.unlink()


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-20])


def replaced(file):
    file.write_bytes(b"PAR1" + bytes(200) + b"PAR1")


@pytest.mark.parametrize("damage", [missing, cut_short, replaced])
@pytest.mark.parametrize("step", ["expire_tombstones", "verify"])
def test_it_is_named(hp, catalog, step, damage):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(2, "a", None), row(3, "c")]})
    append(table, {0: [row(4, "d")]})
    hp.clean(hp.plan(name_of(table), now=T0))
    files = sorted(table.refresh().inspect.data_files()["file_path"].to_pylist())
    assert len(files) > 1
    for path in files:
        damage(Path(path.removeprefix("file://")))
    before = table.current_snapshot()
    with pytest.raises((BadInput, Py4JJavaError)) as raised:
        getattr(hp, step)(name_of(table), now=LATER)
    told = as_hardpack_error(raised.value)
    assert type(told) is BadInput
    assert re.search(r"is (missing|damaged) \(.*; restore it", str(told))
    assert table.refresh().current_snapshot() == before
