"""A REST catalog that does not take the credential, and tables whose silence nobody may overlook. No JVM."""

import pytest
from hardpack import Hardpack
from hardpack.errors import BadInput, Unavailable
from hardpack.operations.known_tables import adopted_tables, note_adopted
from hardpack.table.catalog import open_catalog
from hardpack.table.guard import GuardedRestCatalog

from tests.rest_catalog import config, error, loaded, rest_server
from tests.topics import name_of, new_topic


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [(401, "NotAuthorizedException", BadInput), (403, "Forbidden", BadInput), (503, "Busy", Unavailable)],
)
def test_who_is_refused_has_a_credential_to_mend(status, kind, expected):
    answers = {"/v1/config": config(), "/v1/namespaces": (status, error(kind, status))}
    with rest_server(answers) as uri, pytest.raises(expected) as raised:
        open_catalog("r", {"type": "rest", "uri": uri})
    assert ("mend its credential or token" in str(raised.value)) == (expected is BadInput)


def test_a_wrong_secret_is_no_outage():
    def post(path, body):
        return 401, b'{"error": "invalid_client", "error_description": "wrong secret"}'

    refused = pytest.raises(BadInput, match="refuses the credential it was given")
    with rest_server({"/v1/config": config()}, post=post) as uri, refused:
        open_catalog("r", {"type": "rest", "uri": uri, "credential": "id:wrong"})


def test_a_table_that_was_refused_is_unreadable(tmp_path):
    answers = {"/v1/config": config(), "/v1/namespaces/db/tables/t": (401, error("NotAuthorizedException", 401))}
    with rest_server(answers) as uri, pytest.raises(BadInput, match="grant reading it, or mend the credential"):
        Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path).session("db.t")


def test_whoever_adopts_a_table_notes_it(catalog, tmp_path):
    """So the table is missed from its first silence on."""
    hp, table = Hardpack(catalog, home=tmp_path), new_topic(catalog)
    hp.adopt(name_of(table), dry_run=True)
    assert adopted_tables(tmp_path, catalog.name) == set()
    hp.adopt(name_of(table))
    assert adopted_tables(tmp_path, catalog.name) == {name_of(table)}


def test_a_silent_table_that_nobody_knows_is_told(catalog, tmp_path, caplog):
    answers = {
        "/v1/config": config(),
        "/v1/namespaces": (200, {"namespaces": [["db"]]}),
        "/v1/namespaces/db/tables": (
            200, {"identifiers": [{"namespace": ["db"], "name": "t"}, {"namespace": ["db"], "name": "u"}]},
        ),
        "/v1/namespaces/db/tables/t": loaded(new_topic(catalog), {}, {}),
        "/v1/namespaces/db/tables/u": (503, error("Busy", 503)),
    }  # fmt: skip
    note_adopted(tmp_path, "r", {"db.t": True})
    with rest_server(answers) as uri:
        assert Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path).tables("db.*") == ["db.t"]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("passed over, as nobody is known to have adopted it: db.u")


def test_many_globs_list_a_catalog_once(catalog, tmp_path):
    """A company's policy may name forty of them, and each list of a namespace is a request."""
    asked, of = [], {"/v1/config": config()}

    def counted(path, answer):
        of[path] = lambda: asked.append(path) or answer

    counted("/v1/namespaces", (200, {"namespaces": [["db"]]}))
    tables = [{"namespace": ["db"], "name": name} for name in ("a", "b", "c")]
    counted("/v1/namespaces/db/tables", (200, {"identifiers": tables}))
    for name in ("a", "b", "c"):
        of[f"/v1/namespaces/db/tables/{name}"] = loaded(new_topic(catalog), {}, {})
    with rest_server(of) as uri:
        hp = Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path)
        assert hp.tables("db.a*", "db.b*", "d?.b", "db.plain") == ["db.a", "db.b", "db.plain"]
    assert asked.count("/v1/namespaces/db/tables") == 1
