"""A table's own properties choose no code and no endpoint, and no question to a catalog waits for ever."""

import socket
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hardpack import Hardpack
from hardpack.errors import BadInput, HardpackError, Unavailable
from hardpack.files.data_files import DataFiles
from hardpack.table.catalog import open_catalog, open_table
from hardpack.table.guard import GuardedRestCatalog, bounded_uri, guarded, load_guarded, timeout_of
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import MetadataLogEntry

from tests.rest_catalog import config, error, loaded, rest_server
from tests.topics import append, name_of, new_topic, row

PLANTED = "planted_by_a_table"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module that a property can name, and whether it was imported."""
    (tmp_path / f"{PLANTED}.py").write_text("from pyiceberg.io.pyarrow import PyArrowFileIO as Evil\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda: PLANTED in sys.modules
    sys.modules.pop(PLANTED, None)


@contextmanager
def listening():
    """A socket that takes calls and never answers; gives its address and the calls it took."""
    calls, held = [], []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take():
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return
                calls.append(1)

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", calls
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def hostile(endpoint):
    """Properties by which pyiceberg would import code, or send requests and credentials elsewhere."""
    at = f"http://{endpoint}"
    return {
        "py-io-impl": f"{PLANTED}.Evil", "write.py-location-provider.impl": f"{PLANTED}.Evil",
        "s3.endpoint": at, "s3.signer": "S3V4RestSigner", "s3.signer.uri": at, "s3.proxy-uri": at,
        "client.endpoint": at, "adls.blob-storage-authority": endpoint, "adls.account-host": endpoint,
        "gcs.service.host": at, "hf.endpoint": at, "s3.access-key-id": "theirs",
    }  # fmt: skip


def plant(catalog, properties):
    """A topic with these properties, as another engine would have written them: pyiceberg itself would act on them."""
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")]})
    changed = table.metadata.model_copy(update={"properties": {**table.properties, **properties}})
    ToOutputFile.table_metadata(changed, table.io.new_output(table.metadata_location), overwrite=True)
    return name_of(table)


def test_a_tables_properties_neither_run_code_nor_name_endpoints(lake, catalog, planted):
    with listening() as (endpoint, calls):
        name = plant(catalog, hostile(endpoint))
        opened = open_catalog("hardpack", lake)
        table = open_table(opened, name)
        assert table.properties["s3.endpoint"] == f"http://{endpoint}"
        assert not set(hostile(endpoint)) & set(table.io.properties)
        assert table.refresh().scan().to_arrow().num_rows == 1
        files = DataFiles.of(table)
        assert files.new_location("x.parquet").startswith(table.location())
        with Hardpack(opened) as hp:
            assert [str(s.partition) for s in hp.status(name)] == ["0"]
            hp.pause(name)
        assert not planted()
        assert calls == []
    kept = open_table(opened, name).properties
    assert kept["write.py-location-provider.impl"] == f"{PLANTED}.Evil", "the property is the table's and stays"
    assert "hardpack.state" in kept


def test_pyiceberg_alone_would_have_imported_it(lake, catalog, planted):
    """Shows that what is planted works."""
    name = plant(catalog, {"py-io-impl": f"{PLANTED}.Evil"})
    load_catalog("hardpack", **lake).load_table(name)
    assert planted()


def test_a_catalog_that_the_user_opened_is_guarded_too(lake, catalog, planted):
    name = plant(catalog, hostile("127.0.0.1:1"))
    given = load_catalog("hardpack", **lake)
    assert Hardpack(given).catalog is given
    given.load_table(name).refresh()
    assert not planted()
    assert guarded(given) is given


def test_the_users_own_configuration_may_name_code(lake, catalog, planted):
    name = name_of(new_topic(catalog))
    open_table(load_guarded("hardpack", {**lake, "py-io-impl": f"{PLANTED}.Evil"}), name)
    assert planted()


def test_no_commit_deletes_what_a_tables_metadata_log_names_elsewhere(lake, catalog, tmp_path):
    victim = tmp_path / "others.metadata.json"
    victim.write_text("{}")
    table = new_topic(catalog)
    for offset in range(3):
        append(table, {0: [row(offset, "a")]})
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    own = [Path(entry.metadata_file.removeprefix("file://")) for entry in table.metadata.metadata_log]
    forged = MetadataLogEntry(metadata_file=f"file://{victim}", timestamp_ms=0)
    log = [forged, *table.metadata.metadata_log]
    changed = table.metadata.model_copy(update={"properties": {**table.properties, **properties}, "metadata_log": log})
    ToOutputFile.table_metadata(changed, table.io.new_output(table.metadata_location), overwrite=True)
    hp = Hardpack(open_catalog("hardpack", lake))
    with pytest.raises(BadInput, match=r"would delete older metadata outside.*delete-after-commit\.enabled=false"):
        hp.jvm_table(name_of(table))
    with open_table(hp.catalog, name_of(table)).transaction() as change:
        change.set_properties({"a": "b"})
    assert victim.exists()
    assert not own[0].exists(), "its own old metadata goes as the table says"


def test_a_location_provider_can_be_taken_away(lake, catalog, planted):
    name = plant(catalog, {"write.py-location-provider.impl": f"{PLANTED}.Evil"})
    with open_table(open_catalog("hardpack", lake), name).transaction() as change:
        change.remove_properties("write.py-location-provider.impl")
    assert "write.py-location-provider.impl" not in open_table(catalog, name).properties
    assert not planted()


def test_rest_vends_what_a_fileio_gets_and_the_table_does_not(catalog, planted):
    vended = {"s3.session-token": "vended", "py-io-impl": f"{PLANTED}.Evil"}
    with listening() as (endpoint, calls):
        answers = {
            "/v1/config": config(**{"py-io-impl": f"{PLANTED}.Evil"}),
            "/v1/namespaces": (200, {"namespaces": [["db"]]}),
            "/v1/namespaces/db/tables/t": loaded(new_topic(catalog), hostile(endpoint), vended),
        }
        with rest_server(answers) as uri:
            opened = open_catalog("r", {"type": "rest", "uri": uri, "s3.region": "ours"})
            for table in (open_table(opened, "db.t"), open_table(opened, "db.t").refresh()):
                own = dict(table.io.properties)
                assert (own["s3.session-token"], own["s3.region"]) == ("vended", "ours")
                assert not set(hostile(endpoint)) & set(own)
                assert "s3.endpoint" in table.properties
        assert not planted()
        assert calls == []


def test_glue_is_guarded_as_sql_is(lake, catalog, planted):
    table = open_table(catalog, plant(catalog, hostile("127.0.0.1:1")))

    class Client:
        def get_table(self, **_):
            at = {"table_type": "ICEBERG", "metadata_location": table.metadata_location}
            return {"Table": {"DatabaseName": "db", "Name": "t", "Parameters": at}}

    found = open_table(GlueCatalog("g", client=Client(), **{"glue.region": "eu-1"}), "db.t")
    assert found.properties["py-io-impl"] == f"{PLANTED}.Evil"
    assert not set(hostile("127.0.0.1:1")) & set(found.io.properties)
    assert not planted()


def test_a_silent_rest_catalog_is_not_waited_for():
    with listening() as (endpoint, calls):
        started = time.monotonic()
        with pytest.raises(Unavailable):
            open_catalog("r", {"type": "rest", "uri": f"http://{endpoint}", "hardpack.timeout-seconds": "0.3"})
        assert time.monotonic() - started < 10
        assert calls
        given = {"type": "rest", "uri": f"http://{endpoint}", "hardpack.timeout-seconds": "0.3"}
        with pytest.raises(Unavailable):
            open_catalog("r", {**given, "credential": "id:s3same", "oauth2-server-uri": f"http://{endpoint}/token"})


def test_a_rest_catalog_that_falls_silent_is_not_waited_for(monkeypatch):
    answers = {"/v1/config": config(), "/v1/namespaces": (200, {"namespaces": []})}
    with rest_server(answers, wait=20) as uri:
        opened = GuardedRestCatalog("r", uri=uri, **{"hardpack.timeout-seconds": "0.3"})
        started = time.monotonic()
        with pytest.raises(Unavailable):
            open_table(opened, "db.t")
        assert time.monotonic() - started < 10


def test_a_silent_database_is_not_waited_for():
    with listening() as (endpoint, _):
        started = time.monotonic()
        uri = f"postgresql+psycopg2://ann:pw@{endpoint}/x"
        with pytest.raises(Unavailable):
            open_catalog("p", {"type": "sql", "uri": uri, "hardpack.timeout-seconds": "2"})
        assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:////data/cat.db", "sqlite:////data/cat.db?timeout=30"),
        ("sqlite:////data/cat.db?timeout=5", "sqlite:////data/cat.db?timeout=5"),
        ("postgresql://ann:p%40ss@db:5433/x", "postgresql://ann:p%40ss@db:5433/x?connect_timeout=30"),
        ("postgresql://ann@db/x?sslmode=require", "postgresql://ann@db/x?connect_timeout=30&sslmode=require"),
        ("mysql+pymysql://db/x", "mysql+pymysql://db/x?connect_timeout=30&read_timeout=30&write_timeout=30"),
        ("oracle://db/x", "oracle://db/x"),
    ],
)
def test_databases_are_told_how_long_to_wait(uri, expected):
    assert bounded_uri(uri, 30) == expected


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "inf", ""])
def test_a_time_out_that_is_none_is_refused(given):
    with pytest.raises(BadInput, match=r"hardpack\.timeout-seconds"):
        timeout_of({"hardpack.timeout-seconds": given})


def test_a_catalog_is_closed_at_the_end(lake):
    with Hardpack.connect("hardpack", lake) as hp:
        hp.catalog.list_namespaces()
        assert hp.catalog.engine.pool.checkedin() == 1
    assert hp.catalog.engine.pool.checkedin() == 0


UNREADABLE = {
    "no such table": (404, error("NoSuchTableException", 404)),
    "may not be read": (403, error("ForbiddenException", 403)),
    "cannot be understood": (200, {"metadata-location": "s3://x/y", "metadata": {"format-version": 9}}),
    "TableResponse": (200, b"{" * 3),
    "type variant": (
        200,
        {"metadata-location": "file:///x/metadata/y.json", "config": {}, "metadata": "variant"},
    ),
}


@pytest.mark.parametrize("said", UNREADABLE)
def test_what_nobody_can_read_is_told_from_an_outage(said, catalog):
    from hardpack.errors import Unreadable

    status, body = UNREADABLE[said]
    if isinstance(body, dict) and body.get("metadata") == "variant":
        status, body = loaded(new_topic(catalog), {}, {})
        body["metadata"]["schemas"][0]["fields"][4]["type"] = "variant"
    answers = {"/v1/config": config(), "/v1/namespaces/db/tables/t": (status, body)}
    with rest_server(answers) as uri, pytest.raises(Unreadable, match=said) as caught:
        open_table(GuardedRestCatalog("r", uri=uri), "db.t")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_server_in_trouble_is_an_outage(status):
    answers = {"/v1/config": config(), "/v1/namespaces/db/tables/t": (status, error("ServerError", status))}
    with rest_server(answers) as uri, pytest.raises(Unavailable):
        open_table(GuardedRestCatalog("r", uri=uri), "db.t")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: file.unlink(), "metadata file is missing"),
        (lambda file: file.write_text("{"), "cannot be understood"),
        (lambda file: file.write_text("[" * 100_000), "cannot be understood"),
        (lambda file: file.write_bytes(b"\xff\xfe\x00"), "cannot be understood"),
        (lambda file: file.write_text('{"format-version": 2}'), "cannot be understood"),
        (lambda file: file.write_text("null"), "cannot be understood"),
    ],
)
def test_damaged_metadata_is_one_sentence(catalog, damage, said):
    from hardpack.errors import Unreadable

    table = new_topic(catalog)
    damage(Path(table.metadata_location.removeprefix("file://")))
    with pytest.raises(Unreadable, match=said) as caught:
        open_table(catalog, name_of(table))
    assert isinstance(caught.value, HardpackError)
    catalog.drop_table(name_of(table))
