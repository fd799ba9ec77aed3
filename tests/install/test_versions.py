"""The main job with each Airflow, Spark, Iceberg and Python that docs/airflow.md names."""

import re
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest

from tests.conftest import ROOT
from tests.install.company import Company, build, run

CELLS = {
    # Airflow's minor version, Python, Spark's and Iceberg's, the extra, what pip must be told besides
    ("3.3", "3.11", "4.1", "1.12.0"): ("airflow",),
    ("3.3", "3.11", "4.0", "1.11.0"): ("airflow-spark40",),
    ("3.3", "3.11", "3.5", "1.12.0"): ("airflow-spark35",),
    ("3.2", "3.12", "4.1", "1.12.0"): ("airflow", "fastapi<0.131", "cadwyn<7"),
    ("3.1", "3.13", "4.1", "1.12.0"): ("airflow",),
}
VERSIONS = """
from importlib.metadata import version
from hardpack.spark.session import jar_paths
import platform
print(version("apache-airflow-core"), platform.python_version(), version("pyspark"), *(j.name for j in jar_paths()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"), sys.executable)


def program_of(python):
    """The program of a Python version; None when there is none, or only one that stands for it and does not run."""
    program = shutil.which(f"python{python}")
    return program if program and subprocess.run([program, "-V"], capture_output=True).returncode == 0 else None


@contextmanager
def statsd(company):
    """Has an Airflow send its metrics, and gives the names of those that came, hardpack's among them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.5)
        on = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(server.getsockname()[1])}
        company.env.update({f"AIRFLOW__METRICS__STATSD_{name}": value for name, value in on.items()})
        heard, over = set(), threading.Event()

        def listen():
            while not over.is_set():
                with suppress(TimeoutError):
                    heard.add(server.recv(65536).decode().partition(":")[0])

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield heard
        finally:
            over.set()
            thread.join()


@pytest.mark.versions
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_the_main_job(cell, wheel, tmp_path):
    airflow, python, spark, iceberg = cell
    extra, *more = CELLS[cell]
    program = program_of(python) or pytest.skip(f"no python{python} that runs is here")
    company = Company.of(tmp_path, program, f"{wheel}[{extra},demo]", f"apache-airflow[statsd]=={airflow}.*", *more)
    with statsd(company) as heard:
        said = company.main_job()
    found = company.run("python", "-c", VERSIONS)
    print(f"\nrun: {found}", end="")
    assert {"airflow.hardpack.max-dirty-percent", "airflow.hardpack.DeadThreadCount"} <= heard
    assert "demo.flights: every guarantee holds" in said
    assert re.match(
        rf"{airflow}\.\S+ {python}\.\S+ {spark}\.\S+ iceberg-spark-runtime-{spark}_\S+-{iceberg}\.jar", found
    )


@pytest.mark.versions
@pytest.mark.timeout(2400)
def test_the_lower_ends_of_all_dependencies(wheel, tmp_path):
    lowest = tmp_path / "lowest.txt"
    resolve = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--resolution", "lowest-direct", "--extra", "demo"]
    run(*resolve, "--python-version", "3.11", "--no-header", "-o", str(lowest), str(ROOT / "setup.cfg"))
    company = Company.of(tmp_path, sys.executable, "-r", str(lowest), f"{wheel}[demo]")
    lake = {"URI": f"sqlite:///{tmp_path}/catalog.db", "WAREHOUSE": f"file://{tmp_path}/lake", "TYPE": "sql"}
    company.env.update({f"PYICEBERG_CATALOG__HARDPACK__{name}": value for name, value in lake.items()})
    for command in ("jars", "demo flights", "clean demo.flights", "expire-tombstones demo.flights"):
        company.run("hardpack", *command.split())
    assert "every guarantee holds" in company.run("hardpack", "verify", "demo.flights")


def test_the_docs_tell_of_each():
    table = [re.split(r"\s*\|\s*", line.strip("| ")) for line in (ROOT / "docs/airflow.md").read_text().splitlines()]
    rows = [row for row in table if len(row) == 4 and row[3].startswith("run,")]
    told = {(row[0].rpartition(".")[0], row[1], *row[2].split(", ")) for row in rows}
    assert {(a, p, s.rpartition(".")[0], i) for a, p, s, i in told} == set(CELLS)
