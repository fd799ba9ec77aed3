"""A catalog that dies while it is examined: the findings are told all the same, and what stays behind too; no JVM."""

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
