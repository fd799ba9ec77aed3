"""Jars of the tools that tests and benchmarks run, with all that they need, fetched once from Maven Central."""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hardpack.spark.jars import digest, run_ivy


@dataclass(frozen=True)
class Closure:
    """Jars with all that they need: the dependencies of an Ivy descriptor, and one SHA-256 for all jars fetched."""

    name: str
    dependencies: str
    sha256: str


CLOSURE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="hardpack" module="closure"/><configurations><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>"""


def fetch_closure(home: Path, wanted: Closure) -> Path:
    """Returns the folder with a closure's jars; fetches all of them if the folder is missing or its digest is wrong.

    Raises:
        RuntimeError: the jars cannot be fetched, or their digest is wrong.
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
            # lines with a size in kB are progress, not errors
            told = " ".join(line for line in said.splitlines() if "kB)" not in line)[-300:]
            raise RuntimeError(
                f"{wanted.name} was not fetched ({found[:8]} {told}); see that Maven Central is reachable."
            )
        shutil.rmtree(folder, ignore_errors=True)
        # in one step, so that no reader sees a half-made folder
        jars.rename(folder)
    return folder


def closure_digest(folder: Path) -> str:
    """Returns one SHA-256 for all jars of a folder, names and content."""
    lines = [f"{digest(jar)} {jar.name}\n" for jar in sorted(folder.glob("*.jar"))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
