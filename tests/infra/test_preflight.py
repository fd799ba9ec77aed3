"""Before any work: each thing that is missing is one sentence with its mend."""

import shutil
import socket
import subprocess
import sys
from collections import namedtuple

import pytest

from infra import preflight
from tests.conftest import ROOT

Usage = namedtuple("Usage", "total used free")


def java(folder, version):
    binary = folder / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    binary.chmod(0o755)
    return str(folder)


def test_this_machine_will_do():
    assert preflight.problem(None) is None


@pytest.mark.parametrize(
    ("version", "good"), [("1.8.0_402", False), ("11.0.2", False), ("17.0.15", True), ("21", True)]
)
def test_java_must_be_17_or_21(monkeypatch, tmp_path, version, good):
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    found = preflight.java_problem()
    assert (found is None) == good
    assert good or "install Java 17 or 21" in found


def test_java_is_missing(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert preflight.java_problem().startswith("Java is missing; install")


def test_the_disk_is_full(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 1024**3))
    assert preflight.problem(None) == "1.0 GiB are free here, 6 are needed; make room."


def test_python_is_too_old(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 0))
    assert "3.11 or newer is needed" in preflight.problem(None)


def test_a_taken_port_ends_make_run_before_any_work():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "infra/preflight.py", "--port", str(port)], cwd=ROOT, capture_output=True, text=True
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"hardpack: port {port} is taken; free it (`make down` stops a running demo)")
    assert done.stderr.count("\n") == 1


def test_python_has_no_pip_for_an_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(preflight, "PIP", tmp_path / "pip")
    assert preflight.tool_problem().endswith("install venv (Debian: python3-venv).")

    (tmp_path / "pip").touch()
    assert not (preflight.tool_problem() or "").startswith(sys.executable), "an environment made by other means will do"
