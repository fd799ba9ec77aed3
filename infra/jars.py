"""Fetch jars from Maven Central, once, with the Ivy that pyspark brings; checked by SHA-256.

python infra/jars.py FOLDER [--production]
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Jar:
    """One artifact of Maven Central, without its dependencies."""

    group: str
    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file(self) -> str:
        """Its name in a folder."""
        return f"{self.name}-{self.version}.jar"


EMBEDDED = (
    Jar(
        "org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0",
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    Jar(
        "org.xerial", "sqlite-jdbc", "3.50.3.0",
        "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
    ),
)  # fmt: skip
"""What Spark needs for a catalog in SQLite and files on a local disk."""
PRODUCTION = (
    Jar(
        "org.apache.iceberg", "iceberg-aws-bundle", "1.12.0",
        "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    ),
    Jar(
        "org.postgresql", "postgresql", "42.7.14",
        "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    ),
)  # fmt: skip
"""Jars that Spark needs in production besides: for PostgreSQL, S3 and Glue."""


@dataclass(frozen=True)
class Closure:
    """Jars with all that they need: an Ivy descriptor's dependencies, and one SHA-256 for what must come of them."""

    name: str
    dependencies: str
    sha256: str


CLOSURE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="hardpack" module="closure"/><configurations><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>"""


def fetch(folder: Path, jars: Iterable[Jar]) -> list[Path]:
    """See that every jar lies in the folder with its checksum; a wrong or missing one is fetched.

    Raises:
        SystemExit: it cannot be fetched, or is not what it should be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_one(folder, jar) for jar in jars]


def fetch_closure(home: Path, wanted: Closure) -> Path:
    """Returns the folder with a closure's jars, fetched whole if it is missing or not what it should be.

    Raises:
        RuntimeError: it cannot be fetched, or is not what it should be.
    """
    folder = home / wanted.name
    if closure_digest(folder) == wanted.sha256:
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as name:
        scratch, jars = Path(name), Path(name, "jars")
        (scratch / "ivy.xml").write_text(CLOSURE.format(dependencies=wanted.dependencies))
        said = run_ivy(scratch, jars, "-ivy", str(scratch / "ivy.xml"))
        if (found := closure_digest(jars)) != wanted.sha256:
            # the other lines are progress
            told = " ".join(line for line in said.splitlines() if "kB)" not in line)[-300:]
            raise RuntimeError(
                f"{wanted.name} was not fetched ({found[:8]} {told}); see that Maven Central is reachable."
            )
        shutil.rmtree(folder, ignore_errors=True)
        # in one step, so that nothing half-made is ever seen
        jars.rename(folder)
    return folder


def closure_digest(folder: Path) -> str:
    """Returns one SHA-256 for all jars of a folder, names and content."""
    lines = [f"{digest(jar)} {jar.name}\n" for jar in sorted(folder.glob("*.jar"))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _one(folder: Path, jar: Jar) -> Path:
    path = folder / jar.file
    if path.is_file() and digest(path) == jar.sha256:
        return path
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        found = _resolve(jar, Path(scratch))
        if (actual := digest(found)) != jar.sha256:
            sys.exit(f"{jar} has the checksum {actual}, expected {jar.sha256}; do not use it.")
        found.replace(path)
    print(f"fetched {jar}")
    return path


def _resolve(jar: Jar, scratch: Path) -> Path:
    said = run_ivy(scratch, scratch, "-notransitive", "-dependency", jar.group, jar.name, jar.version)
    found = scratch / jar.file
    if not found.is_file():
        sys.exit(f"{jar} cannot be fetched ({' '.join(said.strip().splitlines()[-1:])}); is Maven Central reachable?")
    return found


def run_ivy(scratch: Path, into: Path, *arguments: str) -> str:
    """Let the Ivy that pyspark brings retrieve jars into a folder; gives all that it said."""
    spec = importlib.util.find_spec("pyspark")
    ivy = next(Path(spec.submodule_search_locations[0]).glob("jars/ivy-*.jar"))
    command = [
        "java", "-jar", str(ivy), "-warn", "-cache", str(scratch / "ivy"), "-types", "jar", "bundle",
        "-retrieve", str(into / "[artifact]-[revision](-[classifier]).[ext]"), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    # else hardpack does not take them, as others might have put them there
    os.umask(0o022)
    fetch(Path(sys.argv[1]), EMBEDDED + PRODUCTION if "--production" in sys.argv[2:] else EMBEDDED)
