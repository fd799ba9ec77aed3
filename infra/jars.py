"""Fetch the jars that Spark needs, once, by Maven coordinate, with the Ivy that pyspark brings; checked by SHA-256.

python infra/jars.py FOLDER
"""

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

JARS = {
    ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"):
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ("org.xerial", "sqlite-jdbc", "3.50.3.0"):
        "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
}  # fmt: skip


def fetch(folder: Path) -> None:
    """See that every jar lies in the folder with its checksum; a wrong or missing one is fetched."""
    folder.mkdir(parents=True, exist_ok=True)
    for (group, artifact, version), expected in JARS.items():
        jar = folder / f"{artifact}-{version}.jar"
        if jar.is_file() and digest(jar) == expected:
            continue
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            found = resolve(group, artifact, version, Path(scratch))
            if (actual := digest(found)) != expected:
                sys.exit(f"{group}:{artifact}:{version} has the checksum {actual}, expected {expected}; do not use it.")
            found.replace(jar)
        print(f"fetched {group}:{artifact}:{version}")


def resolve(group: str, artifact: str, version: str, scratch: Path) -> Path:
    """Download one artifact without its dependencies."""
    said = run_ivy(scratch, scratch, "-notransitive", "-dependency", group, artifact, version)
    jar = scratch / f"{artifact}-{version}.jar"
    if not jar.is_file():
        tail = said.strip().splitlines()[-1:]
        sys.exit(
            f"{group}:{artifact}:{version} cannot be fetched ({' '.join(tail)}); see that Maven Central is reachable."
        )
    return jar


def run_ivy(scratch: Path, into: Path, *arguments: str) -> str:
    """Let the Ivy that pyspark brings retrieve jars into a folder; gives all that it said."""
    spec = importlib.util.find_spec("pyspark")
    ivy = next(Path(spec.submodule_search_locations[0]).glob("jars/ivy-*.jar"))
    command = [
        "java", "-jar", str(ivy), "-warn", "-cache", str(scratch / "ivy"), "-types", "jar", "bundle",
        "-retrieve", str(into / "[artifact]-[revision].[ext]"), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
