"""A REST catalog that does not take the credential, and tables whose silence nobody may overlook. No JVM."""

import pytest
from hardpack import Hardpack
from hardpack.errors import Unavailable
from hardpack.operations.known_tables import adopted_tables, note_adopted
from hardpack.table.catalog import open_catalog
from hardpack.table.guard import GuardedRestCatalog

from tests.rest_catalog import beside_a_silent_one, config, error, loaded, rest_server
from tests.topics import name_of, new_topic


@pytest.mark.parametrize(("status", "kind"), [(401, "NotAuthorizedException"), (403, "Forbidden"), (503, "Busy")])
def test_who_is_refused_is_told_of_the_credential(status, kind):
    """It may be renewed meanwhile, so a task tries again, as where nobody answers."""
    answers = {"/v1/config": config(), "/v1/namespaces": (status, error(kind, status))}
    with rest_server(answers) as uri, pytest.raises(Unavailable) as raised:
        open_catalog("r", {"type": "rest", "uri": uri})
    assert ("refuses who asks" in str(raised.value)) == (status != 503)


def test_a_wrong_secret_is_told_as_one():
    def post(path, body):
        return 401, b'{"error": "invalid_client", "error_description": "wrong secret"}'

    refused = pytest.raises(Unavailable, match=r"refuses who asks .* mend the credential")
    with rest_server({"/v1/config": config()}, post=post) as uri, refused:
        open_catalog("r", {"type": "rest", "uri": uri, "credential": "id:wrong"})


def test_a_table_whose_catalog_refuses_is_told_so(tmp_path):
    answers = {"/v1/config": config(), "/v1/namespaces/db/tables/t": (401, error("NotAuthorizedException", 401))}
    with rest_server(answers) as uri, pytest.raises(Unavailable, match="mend the credential, or try again"):
        Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path).session("db.t")


def test_whoever_adopts_a_table_notes_it(catalog, tmp_path):
    """So the table is missed from its first silence on."""
    hp, table = Hardpack(catalog, home=tmp_path), new_topic(catalog)
    hp.adopt(name_of(table), dry_run=True)
    assert adopted_tables(tmp_path, catalog.name) == set()
    hp.adopt(name_of(table))
    assert adopted_tables(tmp_path, catalog.name) == {name_of(table)}


def test_a_silent_table_that_nobody_knows_is_told(catalog, tmp_path, caplog):
    answers = beside_a_silent_one(new_topic(catalog))
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
    note_adopted(tmp_path, "r", {"db.plain": True})
    with rest_server(of) as uri:
        hp = Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path)
        assert hp.tables("db.a*", "db.b*", "d?.b", "db.plain") == ["db.a", "db.b", "db.plain"]
    assert asked.count("/v1/namespaces/db/tables") == 1
    assert adopted_tables(tmp_path, "r") == {"db.a", "db.b", "db.plain"}, "a plain name is not asked, and not forgotten"


@pytest.mark.parametrize("silent", [(503, error("Busy", 503)), (404, error("NoSuchTable", 404))])
def test_of_several_globs_each_has_its_own_silence(catalog, tmp_path, silent):
    """What is known of one namespace does not excuse another in which nothing answers."""
    tables = {"a": loaded(new_topic(catalog), {}, {}), "b": silent}
    answers = {"/v1/config": config(), "/v1/namespaces": (200, {"namespaces": [["a"], ["b"]]})}
    for name, answer in tables.items():
        answers[f"/v1/namespaces/{name}/tables"] = 200, {"identifiers": [{"namespace": [name], "name": "t"}]}
        answers[f"/v1/namespaces/{name}/tables/t"] = answer
    note_adopted(tmp_path, "r", {"a.t": True})
    with rest_server(answers) as uri:
        hp = Hardpack(GuardedRestCatalog("r", uri=uri), home=tmp_path)
        assert hp.tables("a.*", "b.*") == ["a.t", "b.t"] == sorted(hp.tables("a.*") + hp.tables("b.*"))
