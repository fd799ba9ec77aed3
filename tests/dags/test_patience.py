"""A catalog that hangs holds up nobody but those who ask for its tables, and those not for long."""

import asyncio
import threading
import time

import pytest
from pyiceberg.exceptions import NoSuchTableError

pytestmark = pytest.mark.dags
VISITORS = 60


class Hanging:
    """A catalog that answers when it is released."""

    name = "hardpack"

    def __init__(self):
        self.released, self.opened, self.asked = threading.Event(), 0, 0

    def load_table(self, name):
        self.asked += 1
        self.released.wait(60)
        raise NoSuchTableError(name)

    def list_namespaces(self):
        self.released.wait(60)
        return []


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The application with a catalog that hangs, and questions that are given up soon."""
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from fastapi import FastAPI
    from hardpack.table import catalog as module
    from hardpack_airflow import actions, patience, web

    hanging = Hanging()

    def open_catalog(name):
        hanging.opened += 1
        return hanging

    monkeypatch.setattr(module, "open_catalog", open_catalog)
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 3.0)
    # in the place of Airflow's own API, which knows no DAG here
    monkeypatch.setattr(actions, "_airflow", FastAPI)
    web._table_cache.cache_clear()
    for dependency in web.app.router.dependencies:
        web.app.dependency_overrides[dependency.dependency] = lambda: None
    yield web.app, hanging
    hanging.released.set()
    web.app.dependency_overrides.clear()
    web._table_cache.cache_clear()


async def visit(app, *addresses):
    """Status, text and seconds of each answer, of requests at the same time."""
    import httpx

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here", timeout=30) as client:

        async def one(address):
            started = time.monotonic()
            answer = await client.get(address)
            return answer.status_code, answer.text, time.monotonic() - started

        return await asyncio.gather(*(one(address) for address in addresses))


def test_a_hanging_catalog_holds_up_no_other_page(site):
    app, _ = site
    everyone = [f"/tables/db.t{n}" for n in range(VISITORS)] + [f"/api/tables/db.t{n}" for n in range(VISITORS)]
    # routes such as these take a thread that Airflow's own routes share
    others = ["/reports", "/style.css"]
    found = asyncio.run(visit(app, *everyone, *others))
    assert [status for status, _, _ in found[-2:]] == [200, 200]
    assert max(seconds for _, _, seconds in found[-2:]) < 2.5
    assert {status for status, _, _ in found[:-2]} == {503}
    assert max(seconds for _, _, seconds in found) < 15
    said = {text for _, text, _ in found[:-2]}
    assert any("did not answer in 3 s" in text for text in said)
    assert any("pages wait for catalog hardpack" in text for text in said)


def test_all_pages_share_one_catalog_and_go_on_when_it_answers_again(site):
    from hardpack_airflow.patience import AT_ONCE

    app, hanging = site
    asyncio.run(visit(app, *(f"/tables/db.t{n}" for n in range(VISITORS))))
    assert (hanging.opened, hanging.asked) == (1, AT_ONCE)
    hanging.released.set()
    time.sleep(0.5)
    for _ in range(3):
        ((status, text, _),) = asyncio.run(visit(app, "/tables/db.t0"))
        assert (status, "no such table" in text) == (404, True)
    assert hanging.opened == 1
