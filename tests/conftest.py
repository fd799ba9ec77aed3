"""Fixtures: an embedded lakehouse per test, one Spark session for all tests of a process that need one."""

from __future__ import annotations

import functools
import logging
import os
from itertools import count, repeat
from pathlib import Path
from zlib import crc32

import pytest
import typer.main

ROOT = Path(__file__).resolve().parents[1]
CATALOG = "hardpack"
_TURNS = count()
# typer makes all verbs anew for each call, which takes longer than most of them
typer.main.get_command = functools.cache(typer.main.get_command)


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    """Catalog properties of one lakehouse for the whole session; tests take tables of their own in it."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "warehouse").mkdir()
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Where results and Data Docs go; the jars are those that `make jars` fetched."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def catalog(lake):
    from pyiceberg.catalog import load_catalog

    return load_catalog(CATALOG, **lake)


@pytest.fixture
def lakehouse(tmp_path):
    """A catalog of the test's own, so that it has no other tables."""
    from pyiceberg.catalog import load_catalog

    (tmp_path / "warehouse").mkdir()
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    return load_catalog("own", type="sql", **properties)


@pytest.fixture(scope="session")
def spark(catalog, passes_by_turns):
    from hardpack.spark.session import open_session

    os.environ.setdefault("HARDPACK_HOME", str(ROOT / ".hardpack"))
    # Airflow has Python's loggers tell more, and connections end after pytest has closed what they write to
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # thousands of small steps, none of which runs long enough for better code
    session = open_session(catalog, short_life=True)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def passes_by_turns():
    """Every other pass does its small steps in Spark's workers, as large ones do; else no test would."""
    from hardpack.compaction import pipeline
    from hardpack.spark import nearby

    rows, real = nearby.ROWS, pipeline.read_inputs

    def read_inputs(session, work):
        nearby.ROWS = rows if next(_TURNS) % 2 else 0
        return real(session, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "read_inputs", read_inputs)
        yield
        nearby.ROWS = rows


@pytest.fixture(autouse=True)
def own_turns(request):
    """A test that is run alone begins as it does among others."""
    global _TURNS
    _TURNS = count(crc32(request.node.nodeid.encode()))


@pytest.fixture
def in_workers(own_turns):
    """Every pass does its small steps in Spark's workers."""
    global _TURNS
    _TURNS = repeat(0)


@pytest.fixture
def beside_driver(own_turns):
    """Every pass does its small steps beside the driver."""
    global _TURNS
    _TURNS = repeat(1)


@pytest.fixture
def no_pages(monkeypatch):
    """The gate decides as ever but draws no page of Data Docs, which takes a third of a small pass."""
    from great_expectations.data_context import AbstractDataContext

    monkeypatch.setattr(AbstractDataContext, "build_data_docs", lambda *_, **__: {})


@pytest.fixture
def hp(catalog, spark, home, no_pages):
    from hardpack import Hardpack

    return Hardpack(catalog, spark, home)


@pytest.fixture
def cold(catalog, home):
    """The library without a Spark session: a verb that starts one fails the test."""
    from hardpack import Hardpack

    class Cold(Hardpack):
        @property
        def spark(self):
            raise AssertionError("this must not start a JVM")

    return Cold(catalog, None, home)


@pytest.fixture
def meanwhile(monkeypatch):
    """Run something once, right before the commit."""
    from hardpack.spark.jvm_table import JvmTable

    def plant(action):
        real, done = JvmTable.commit, []

        def commit(self, base, change):
            if not done:
                done.append(True)
                action()
            return real(self, base, change)

        monkeypatch.setattr(JvmTable, "commit", commit)

    return plant


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """A home for one test: what is noted of its tables is none of the other tests' business."""
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))


@pytest.fixture
def write_policies(tmp_path, monkeypatch):
    """Writes the policy file that is in force, and gives its path."""
    path = tmp_path / "policies.yaml"
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))

    def write(text):
        path.write_text(text)
        return path

    return write


def pytest_terminal_summary(terminalreporter):
    """Shows what passed tests of a real broker print, where pytest keeps it, as it does of processes side by side."""
    for report in terminalreporter.getreports("passed"):
        if "kafka" in report.keywords and report.capstdout:
            terminalreporter.write_line(report.capstdout.rstrip())
