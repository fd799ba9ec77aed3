"""Jars that Spark needs beside its own: fetched from Maven Central with pyspark's Ivy, and checked by SHA-256."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hardpack.errors import BadInput, Unavailable
from hardpack.spark.versions import fit_of


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
        """The name of the jar's file."""
        return f"{self.name}-{self.version}.jar"


DRIVER = Jar(
    "org.xerial", "sqlite-jdbc", "3.50.3.0",
    "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
)  # fmt: skip
"""The JDBC driver that Spark needs for a catalog in SQLite."""
POSTGRESQL = Jar(
    "org.postgresql", "postgresql", "42.7.14",
    "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
)  # fmt: skip
AWS_BUNDLES = {
    "1.12.0": "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    "1.11.0": "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
}
"""SHA-256 of the bundle that Iceberg needs for S3 and Glue, by Iceberg's version."""


def needed(spark: str, production: bool = False) -> list[Jar]:
    """Returns the jars for a version of Spark: Iceberg's runtime and the driver for SQLite.

    Args:
        spark: its version.
        production: also what PostgreSQL, S3 and Glue need.

    Raises:
        BadInput: hardpack does not work with that version.
    """
    fit = fit_of(spark)
    runtime = Jar("org.apache.iceberg", fit.runtime, fit.iceberg, fit.runtime_sha256)
    if not production:
        return [runtime, DRIVER]
    bundle = Jar("org.apache.iceberg", "iceberg-aws-bundle", fit.iceberg, AWS_BUNDLES[fit.iceberg])
    return [runtime, DRIVER, bundle, POSTGRESQL]


def fetch(folder: Path, jars: Iterable[Jar]) -> list[Path]:
    """Fetches the jars that a folder lacks or has with a wrong checksum, and returns the paths of all.

    Args:
        folder: made when it is missing, with rights that nobody else may write to it: what lies there is run.
        jars: those wanted.

    Raises:
        BadInput: a fetched jar has a wrong checksum, or there is no Java or no Ivy.
        Unavailable: a jar cannot be fetched.
    """
    before = os.umask(0o022)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_one(folder, jar) for jar in jars]
    finally:
        os.umask(before)


def _one(folder: Path, jar: Jar) -> Path:
    path = folder / jar.file
    if path.is_file() and digest(path) == jar.sha256:
        return path
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fetched = _resolve(jar, Path(scratch))
        if (actual := digest(fetched)) != jar.sha256:
            raise BadInput(f"{jar} has the checksum {actual}, expected {jar.sha256}; do not use it.")
        fetched.replace(path)
    return path


def _resolve(jar: Jar, scratch: Path) -> Path:
    said = run_ivy(scratch, scratch, "-notransitive", "-dependency", jar.group, jar.name, jar.version)
    fetched = scratch / jar.file
    if not fetched.is_file():
        why = " ".join(said.strip().splitlines()[-1:])
        raise Unavailable(f"{jar} cannot be fetched ({why}); see that Maven Central is reachable, then try again.")
    return fetched


def java_command() -> str:
    """Returns the command that starts Java, found as Spark finds it: that of JAVA_HOME, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def run_ivy(scratch: Path, into: Path, *arguments: str) -> str:
    """Has the Ivy that pyspark brings retrieve jars into a folder; returns all that Ivy printed.

    Args:
        scratch: a folder for Ivy's cache.
        into: where the jars go.
        arguments: what to retrieve, as Ivy takes it.

    Raises:
        BadInput: there is no Java, or no Ivy.
    """
    spec = importlib.util.find_spec("pyspark")
    places = (spec.submodule_search_locations if spec else None) or ()
    ivy = next((jar for place in places for jar in Path(place).glob("jars/ivy-*.jar")), None)
    java = java_command()
    if ivy is None or not shutil.which(java):
        raise BadInput("jars are fetched with Java and the Ivy of pyspark's full package; install both.")
    command = [
        java, "-jar", str(ivy), "-warn", "-cache", str(scratch / "ivy"), "-types", "jar", "bundle",
        "-retrieve", str(into / "[artifact]-[revision](-[classifier]).[ext]"), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
