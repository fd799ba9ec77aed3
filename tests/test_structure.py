"""The house: who may import whom, and what does not belong into the tree."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "jobs" / "hardpack"
HEAVY = {"pyspark", "airflow", "great_expectations", "py4j"}


def imports(path: Path, module_level_only: bool = False) -> set[str]:
    """Modules that a file imports; type-checking blocks do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(n)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for n in ast.walk(node)
    }
    nodes = tree.body if module_level_only else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def forbidden(path: Path, *prefixes: str) -> list[str]:
    return [m for m in imports(path) if any(m == p or m.startswith(p + ".") for p in prefixes)]


@pytest.mark.parametrize("path", files("jobs/hardpack/log"), ids=lambda p: p.name)
def test_rules_are_pure(path):
    allowed = {"hardpack.log", "hardpack.errors", "pydantic"}
    outside = [m for m in imports(path) if m.split(".")[0] not in sys.stdlib_module_names]
    assert [m for m in outside if not any(m == a or m.startswith(a + ".") for a in allowed)] == []


@pytest.mark.parametrize("path", files("jobs/hardpack/lake"), ids=lambda p: p.name)
def test_lake_knows_nothing_above_it(path):
    above = ["hardpack.spark", "hardpack.api", "hardpack.plan", "hardpack.clean", "hardpack.passes", "hardpack.verify"]
    assert forbidden(path, *above, "hardpack_airflow", "hardpack_expectations", "airflow", "pyspark") == []
    if path.name not in ("door.py", "upkeep.py"):
        assert forbidden(path, "py4j") == []


@pytest.mark.parametrize("path", files("jobs/hardpack/spark"), ids=lambda p: p.name)
def test_spark_knows_no_verb(path):
    verbs = ["hardpack.api", "hardpack.plan", "hardpack.clean", "hardpack.passes", "hardpack.verify", "hardpack.cli"]
    assert forbidden(path, *verbs, "hardpack_airflow", "hardpack_expectations", "airflow", "py4j") == []


@pytest.mark.parametrize("path", files("jobs"), ids=lambda p: p.name)
def test_the_engine_knows_nothing_of_airflow(path):
    assert forbidden(path, "airflow", "hardpack_airflow") == []


@pytest.mark.parametrize("path", files("plugins") + files("dags"), ids=lambda p: p.name)
def test_airflow_side_loads_nothing_heavy(path):
    assert forbidden(path, "pyspark", "py4j", "great_expectations", "hardpack_expectations") == []
    at_parse_time = {m.split(".")[0] for m in imports(path, module_level_only=True)}
    assert at_parse_time & {"pyiceberg", "pandas", "hardpack"} == set()


def test_only_the_door_calls_icebergs_jvm():
    calls = [p.name for p in files("jobs") if "org.apache.iceberg" in p.read_text()]
    assert set(calls) <= {"door.py", "commit.py", "session.py", "spark_catalog.py", "upkeep.py"}


def test_only_one_door_opens_catalogs_and_tables():
    opening = re.compile(r"\b(load_table|load_catalog|load_file_io|StaticTable|register_table)\(")
    found = {p.name for folder in ("jobs", "plugins", "infra", "dags", "expectations") for p in files(folder)
             if opening.search(p.read_text())}  # fmt: skip
    assert found == {"catalog.py", "guard.py", "vended.py"}


def test_the_rules_load_without_catalog_or_spark():
    code = "import sys, hardpack.log.reference, hardpack.log.selection; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("pyspark", "pyiceberg", "airflow", "great_expectations", "pandas"):
        assert f"'{heavy}'" not in done.stdout


def test_no_file_is_too_long():
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    long = {p: n for p in tracked if (n := len((ROOT / p).read_text().splitlines())) > 400}
    assert long == {}


def test_no_registry_host_in_the_tree():
    # spelled in pieces, so that this file passes its own test
    hosts = "|".join(f"{a}.{b}" for a, b in [("pypi", "org"), ("repo1.maven", "org"), ("pythonhosted", "org")])
    done = subprocess.run(["git", "grep", "-lE", hosts.replace(".", r"\.")], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == ""
