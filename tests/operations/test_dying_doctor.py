"""A catalog that dies while it is examined: the findings are told all the same, and what stays behind too; no JVM."""

from types import SimpleNamespace

import pytest
from hardpack import Hardpack
from hardpack.operations.doctor import Doctor
from pyiceberg.catalog import load_catalog
from sqlalchemy.exc import OperationalError

from tests.conftest import CATALOG
from tests.topics import T0


class Dying:
    """A catalog that does not answer once so many questions of a kind were asked."""

    def __init__(self, catalog, dies_at):
        self.catalog, self.dies_at, self.dead = catalog, dies_at, False

    def __getattr__(self, name):
        found = getattr(self.catalog, name)
        if name == self.dies_at:
            self.dead = True
        if not callable(found) or not self.dead:
            return found

        def gone(*_, **__):
            raise OperationalError("select", {}, Exception("the server closed the connection"))

        return gone


@pytest.mark.parametrize(("place", "mine"), [("team#1", "{}"), ("team?1", "{}"), ("team", "precious"), ("a%23", "{}")])
def test_nothing_but_its_own_folder_is_removed(tmp_path, place, mine):
    """What stands behind a # or a ? is no part of a URL's path, and here it is one of the folder's name."""
    doctor = Doctor(Hardpack(SimpleNamespace(purge_table=print, properties={}, name="c")), lambda: T0, place)
    kept, own = tmp_path / "team" / "precious", tmp_path / place / mine.format(doctor.mark)
    for folder in (kept, own):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".data.crc").write_text("sum")
    doctor._remove(f"file://{own}")
    assert (kept / ".data.crc").exists()
    assert own.exists() == (mine == "precious")


def test_a_namespace_that_is_not_there_is_not_made(lake, home):
    catalog = load_catalog(CATALOG, **lake)
    report = Doctor(Hardpack(catalog, home=home), lambda: T0, "nowhere").examine()
    assert "there is no namespace 'nowhere'; name one that is there, or none." in report.findings[-1].found
    assert report.exit_code == 2
    assert not catalog.namespace_exists("nowhere")


@pytest.mark.parametrize(
    ("dies_at", "told"),
    [("create_table", ["write by pyiceberg"]), ("load_table", ["write by pyiceberg", "clean-up"])],
)
def test_its_findings_are_told(lake, home, dies_at, told, monkeypatch):
    dying = Dying(load_catalog(CATALOG, **lake), dies_at)
    doctor = Doctor(Hardpack(dying, home=home), lambda: T0)
    if dies_at == "load_table":
        # the table is there, and then the catalog goes
        real = doctor._write
        monkeypatch.setattr(doctor, "_write", lambda: real() + str(dying.load_table(doctor.name)))
    report = doctor.examine()
    assert [f.check for f in report.findings if not f.well] == told
    assert report.exit_code == 5
    assert all("\n" not in f.found for f in report.findings)
