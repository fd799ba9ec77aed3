"""What a company does: plain pip into an empty environment, and the main job from there with no checkout at hand."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.services.process import free_ports
from tests.conftest import ROOT

pytestmark = [pytest.mark.install, pytest.mark.timeout(2400)]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=2000, **more)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The tree as git would give it to somebody, so that building leaves nothing in ours."""
    folder = tmp_path_factory.mktemp("source")
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment with nothing but what one pip command brings, and a machine of which nothing else is known."""
    folder = tmp_path_factory.mktemp("company")
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    began = time.monotonic()
    run(folder / "venv" / "bin" / "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[airflow,demo]")
    print(f"\npip install 'hardpack[airflow,demo]': {time.monotonic() - began:.0f} s, downloads included")
    kept = ("PATH", "JAVA_HOME", "LANG", "PIP_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    env = {k: v for k, v in os.environ.items() if k in kept} | {"HOME": str(folder)}
    env["PATH"] = f"{folder / 'venv' / 'bin'}{os.pathsep}{env['PATH']}"
    (folder / "work").mkdir()
    return folder, env


def test_pip_leaves_a_whole_environment(environment):
    folder, env = environment
    run(folder / "venv" / "bin" / "pip", "check", env=env)
    listed = json.loads(run(folder / "venv" / "bin" / "pip", "list", "--format", "json", env=env))
    versions = {package["name"]: package["version"] for package in listed}
    assert versions["pyspark"] == versions["pyspark-client"]
    assert run("hardpack", "--version", env=env, cwd=folder).startswith("hardpack ")


def test_the_first_table_is_compacted_through_that_airflow(environment):
    folder, env = environment
    began = time.monotonic()
    run("hardpack", "jars", env=env, cwd=folder / "work")
    fetched = time.monotonic()
    port = str(free_ports(1)[0])
    said = run("python", "-m", "hardpack_airflow.demo", "run", "--port", port, env=env, cwd=folder / "work")
    took = time.monotonic() - fetched
    print(f"\nhardpack jars: {fetched - began:.0f} s, downloads included\nthe main job: {took:.0f} s\n{said}")
    assert "demo.flights: every guarantee holds" in said
    assert took < 300
    assert str(ROOT) not in said
    assert Path(folder, "work", ".hardpack", "reports").is_dir()
