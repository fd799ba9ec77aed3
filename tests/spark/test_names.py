"""Tables and catalogs may be called as they like: names reach Spark and files quoted, cut and whole."""

import time
from pathlib import Path

import pytest
from hardpack import Hardpack
from hardpack.compaction.data_docs import newest_pages
from hardpack.demo.topic import create_topic
from hardpack.spark.session import open_session
from hardpack.spark.sql_text import literal, quoted
from pyiceberg.catalog import load_catalog

from tests.topics import append, name_of, offsets, row

DAY = 86_400_000
SETTINGS = {"hardpack.min.cleanable.dirty.ratio": "0", "hardpack.orphan.age.ms": str(12 * DAY)}


@pytest.mark.spark
@pytest.mark.parametrize("name", ["order-items", "1st", "select", "${env:HOME}", "it's`so", "t" * 150])
def test_every_verb_works_on_them(spark, home, tmp_path, name):
    (tmp_path / "warehouse").mkdir()
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    lake = load_catalog(f"my-lake{abs(hash(name))}", type="sql", **properties)
    table = create_topic(lake, f"{name}.{name}", SETTINGS)
    for offset in range(4):
        append(table, {0: [row(offset, "k")]})
    hp, now = Hardpack(lake, open_session(lake), home), int(time.time() * 1000)
    assert hp.clean(hp.plan(name_of(table), now, force=True)).logs[0].superseded == 2
    assert offsets(table) == [2, 3]
    (page,) = hp.verify(name_of(table), now).data_docs
    assert Path(page).is_file()
    pages = newest_pages(home / "data_docs", 9, name_of(table))
    assert Path(page) in [home / "data_docs" / path for _, path in pages]
    hp.clock = lambda: now + 10 * DAY
    assert hp.maintain(name_of(table), now + 10 * DAY).snapshots_after == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lake.db.orders", "`lake`.`db`.`orders`"),
        ("my-lake.a.b-c.d", "`my-lake`.`a`.`b-c`.`d`"),
        ("lake.db.a`b", "`lake`.`db`.`a``b`"),
        (("lake", "db.eu", "t"), "`lake`.`db.eu`.`t`"),
        ("lake.db.${env:HOME}", "`lake`.`db`.`${env:HOME}`"),
    ],
)
def test_names_are_quoted_part_by_part(name, expected):
    assert quoted(name) == expected


def test_text_is_quoted():
    assert literal(r"it's \\ so") == r"'it\'s \\\\ so'"
