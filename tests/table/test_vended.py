"""Credentials that a REST catalog lends are renewed wherever a table's files are used; a small catalog stands in."""

import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from hardpack.files.data_files import DataFiles
from hardpack.table import vended
from hardpack.table.vended import AGAIN, MARGIN, UNTOLD, RenewedIO
from pyiceberg.catalog.rest import RestCatalog

from tests.files.test_data_files import refs, rows_in
from tests.topics import append, new_topic, row

NOW = 1_700_000_000.0
LIFE = 3600


class Clock:
    """Pickled, it goes on telling the time of the test."""

    now = NOW

    def __call__(self):
        return Clock.now


class Lender(BaseHTTPRequestHandler):
    """A REST catalog of one table."""

    def do_GET(self):
        told = self.server.told
        body = {"overrides": {}, "defaults": {}, "endpoints": told["endpoints"]}
        if self.path.endswith("/credentials"):
            told["asked"].append("credentials")
            body = {"storage-credentials": [{"prefix": "", "config": lent(told)}]}
        elif "/tables/" in self.path:
            told["asked"].append("table")
            body = {"metadata-location": told["location"], "metadata": told["metadata"], "config": lent(told)}
        self.send_response(500 if told["down"] and "/tables/" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        """Say nothing."""


def lent(told):
    token = {"s3.session-token": f"lent at {Clock.now:.0f}"}
    ends = {"s3.session-token-expires-at-ms": str(int((Clock.now + LIFE) * 1000))}
    return token | ends if told["ends"] else token


@pytest.fixture
def lender(catalog, monkeypatch):
    """A topic behind a catalog that lends, and what the catalog was asked."""
    real = new_topic(catalog)
    append(real, {0: [row(0, "a"), row(1, "b")]})
    real.refresh()
    metadata = json.loads(real.io.new_input(real.metadata_location).open().read())
    load, credentials = (
        f"GET /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}{end}" for end in ("", "/credentials")
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lender)
    server.told = {
        "location": real.metadata_location, "metadata": metadata, "endpoints": [load, credentials], "asked": [],
        "down": False, "ends": True, "name": real.name(),
    }  # fmt: skip
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(Clock, "now", NOW)
    monkeypatch.setattr(vended, "_known", {})
    monkeypatch.setattr(RenewedIO.__init__, "__defaults__", (Clock(),))
    server.told["uri"] = f"http://127.0.0.1:{server.server_address[1]}"
    yield server.told
    server.shutdown()
    server.server_close()


class OfAnother(RestCatalog):
    """A catalog class of somebody's own."""


def loaded(told):
    return OfAnother("lender", uri=told["uri"]).load_table(told["name"])


def in_a_task(told):
    """A copy of the files as they are pickled when a pass begins, and its reader."""
    table = loaded(told)
    pickled, found = pickle.dumps(DataFiles.of(table)), refs(table)
    told["asked"].clear()
    return pickled, lambda files: rows_in(files, [ref.entry for ref in found])


def token(files):
    return files.io.properties["s3.session-token"]


def test_a_task_that_begins_late_reads_with_new_credentials(lender):
    pickled, read = in_a_task(lender)
    early = pickle.loads(pickled)
    assert read(early) == [(0, b"a"), (1, b"b")]
    assert (token(early), lender["asked"]) == (f"lent at {NOW:.0f}", [])
    Clock.now = NOW + LIFE - MARGIN + 1
    late, later = pickle.loads(pickled), pickle.loads(pickled)
    assert read(late) == read(later) == [(0, b"a"), (1, b"b")]
    assert token(late) == token(later) == f"lent at {Clock.now:.0f}"
    # the process asks once, however many tasks it runs, and the table's metadata need not be sent
    assert lender["asked"] == ["credentials"]


def test_a_task_that_lasts_renews_for_its_next_file(lender):
    pickled, read = in_a_task(lender)
    files = pickle.loads(pickled)
    for turn in range(1, 4):
        read(files)
        Clock.now = NOW + turn * LIFE
        read(files)
        assert token(files) == f"lent at {Clock.now:.0f}"
    assert lender["asked"] == ["credentials"] * 3
    location = files.new_location("a.puffin")
    with files.created(location) as stream:
        stream.write(b"written")
    files.discard([location])


def test_a_catalog_that_lends_with_the_table_alone_is_asked_for_it(lender):
    lender["endpoints"] = lender["endpoints"][:1]
    pickled, read = in_a_task(lender)
    files = pickle.loads(pickled)
    # who may change the table does not say where the credentials are sent
    lender["metadata"]["properties"]["s3.endpoint"] = "http://elsewhere"
    Clock.now = NOW + LIFE
    read(files)
    assert token(files) == f"lent at {Clock.now:.0f}"
    assert lender["asked"] == ["table"]
    assert "s3.endpoint" not in files.io.properties


def test_credentials_of_which_nobody_says_when_they_end_are_renewed_in_time(lender):
    lender["ends"] = False
    pickled, read = in_a_task(lender)
    files = pickle.loads(pickled)
    Clock.now = NOW + UNTOLD - 1
    read(files)
    assert lender["asked"] == []
    Clock.now = NOW + UNTOLD
    read(files)
    assert token(files) == f"lent at {Clock.now:.0f}"


def test_while_the_catalog_is_down_those_at_hand_serve(lender, caplog, monkeypatch):
    pickled, read = in_a_task(lender)
    files = pickle.loads(pickled)
    Clock.now, lender["down"] = NOW + LIFE - MARGIN, True
    assert read(files) == [(0, b"a"), (1, b"b")]
    assert token(files) == f"lent at {NOW:.0f}"
    assert "no new credentials for lender.t." in caplog.text
    assert "lent at" not in caplog.text
    tries = len(lender["asked"])
    read(files)
    assert len(lender["asked"]) == tries
    Clock.now, lender["down"] = Clock.now + AGAIN, False
    read(files)
    assert token(files) == f"lent at {Clock.now:.0f}"


def test_who_has_credentials_of_their_own_keeps_them(lender, catalog):
    own = RestCatalog("lender", uri=lender["uri"], **lent(lender))
    table = own.load_table(lender["name"])
    assert DataFiles.of(table).io is table.io
    plain = catalog.load_table(lender["name"])
    assert DataFiles.of(plain).io is plain.io


def test_a_catalog_that_does_not_answer_holds_up_no_other_s_tables(monkeypatch):
    asked, answer = threading.Event(), threading.Event()

    def hang(self):
        asked.set()
        answer.wait(20)
        return {}

    monkeypatch.setattr(RenewedIO, "_lent", hang)
    monkeypatch.setattr(vended, "_known", {})
    away = RenewedIO(("a", "db", "t"), {}, {}, "file:///a", clock=lambda: NOW)
    away._due = NOW
    waiting = threading.Thread(target=away.new_input, args=("file:///a",), daemon=True)
    waiting.start()
    assert asked.wait(10)
    served = threading.Event()

    def other():
        RenewedIO(("b", "db", "t"), {}, {}, "file:///b", clock=lambda: NOW).new_input("file:///b")
        served.set()

    threading.Thread(target=other, daemon=True).start()
    found = served.wait(10)
    answer.set()
    waiting.join(10)
    assert found, "it waited for another catalog"


def test_the_catalog_is_asked_with_a_time_out(lender, monkeypatch):
    seen = []
    real = requests.Session.send
    monkeypatch.setattr(requests.Session, "send", lambda *a, **k: seen.append(k.get("timeout")) or real(*a, **k))
    pickled, read = in_a_task(lender)
    seen.clear()
    Clock.now = NOW + LIFE
    read(pickle.loads(pickled))
    assert seen
    assert all(seen)
