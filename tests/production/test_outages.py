"""A real catalog that dies, or whose answer is lost, in the middle of a commit; the same plan again ends well."""

import pytest
from hardpack import Hardpack
from hardpack.errors import CommitUnknown
from hardpack.lake.door import IceTable
from hardpack.spark.session import open_session
from pyiceberg.catalog import load_catalog

from tests.conftest import CATALOG
from tests.production.proxy import LossyProxy
from tests.topics import T0, append, name_of, new_topic, row, rows_of

pytestmark = [pytest.mark.production, pytest.mark.timeout(900)]
LEFT = [1, 2, 3, 4]


@pytest.fixture
def far(rest, storage, production_home, monkeypatch, home):
    """hardpack on REST, behind a proxy, and S3."""
    with LossyProxy(rest.port) as proxy:
        behind = {"uri": f"http://127.0.0.1:{proxy.port}/"}
        properties = {**rest.properties, **storage.properties, **behind}
        monkeypatch.setenv("HARDPACK_HOME", production_home(properties)["HARDPACK_HOME"])
        catalog = load_catalog(CATALOG, **properties)
        spark = open_session(catalog)
        yield Hardpack(catalog, spark, home), proxy
        spark.stop()


def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "b")]})
    append(table, {0: [row(2, "a"), row(3, "c")]})
    append(table, {0: [row(4, "d")]})
    return table


def before_the_commit(monkeypatch, action):
    real, done = IceTable.commit, []

    def commit(self, base, change):
        if not done:
            done.append(True)
            action()
        return real(self, base, change)

    monkeypatch.setattr(IceTable, "commit", commit)


def offsets(table):
    return [r.offset for r in rows_of(table)]


def test_an_answer_that_is_lost(far, monkeypatch):
    hp, proxy = far
    table = topic(hp.catalog)
    plan = hp.plan(name_of(table), now=T0)
    request = f"POST /v1/namespaces/t/tables/{table.name()[-1]}".encode()
    before_the_commit(monkeypatch, lambda: setattr(proxy, "lose_answer_to", request))
    report = hp.clean(plan)
    assert proxy.lost == 1
    assert report.snapshot == table.refresh().current_snapshot().snapshot_id, "found out, not guessed"
    assert hp.clean(plan).repeated
    assert offsets(table) == LEFT
    assert len(table.snapshots()) == 4


def test_a_catalog_that_dies_before_the_swap(far, rest, monkeypatch):
    hp, _ = far
    table = topic(hp.catalog)
    plan = hp.plan(name_of(table), now=T0)
    before_the_commit(monkeypatch, rest.kill)
    with pytest.raises(CommitUnknown, match="run the same plan again"):
        hp.clean(plan)
    rest.start()
    assert offsets(table) == [0, *LEFT]
    assert not hp.clean(plan).repeated
    assert offsets(table) == LEFT
