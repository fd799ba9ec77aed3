"""How the driver's Java starts: where it finds jars, which classes an archive has ready for it, how it compiles."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from hardpack.home import default_home, trusted

# the first compiler alone: better code pays off later than a verb ends, as its rows are read and written in Python.
# With that compiler alone Java keeps 48 MB for its code. Many kinds of work fill them; from then on Java throws code
# away that it needs, and compiles it again
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# else Java says on stdout why a class archive does not fit, and goes on without it
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
MADE_AT_EXIT = "HARDPACK_CLASS_ARCHIVE"
"""Environment variable: names the file into which Java writes, when it exits, the classes that it has loaded."""


def driver_class_path(jars: Sequence[Path]) -> str:
    """Returns the class path by which a driver finds jars; classes from `spark.jars` cannot lie in a class archive.

    Args:
        jars: Iceberg's runtime and drivers.
    """
    return os.pathsep.join(str(jar.resolve()) for jar in jars)


def found_by(jars: Sequence[Path], master: str) -> dict[str, str]:
    """Returns the settings by which Spark finds jars.

    Args:
        jars: Iceberg's runtime and drivers.
        master: Spark's; with a local one the driver alone needs them, and they are not copied.
    """
    if master.partition("[")[0] == "local":
        return {"spark.driver.extraClassPath": driver_class_path(jars)}
    return {"spark.jars": ",".join(map(str, jars))}


def class_archive(jars: Sequence[Path]) -> Path:
    """Returns the path of the class archive for some jars, if one was made; Java passes over one that does not fit.

    Args:
        jars: Iceberg's runtime and drivers.
    """
    names = hashlib.sha256("\n".join(jar.name for jar in jars).encode()).hexdigest()[:12]
    return default_home().resolve() / "jars" / f"classes-{names}.jsa"


def java_options(jars: Sequence[Path], short_life: bool) -> str:
    """Returns the options with which the driver's Java starts in less time, quoted as Spark reads them.

    Args:
        jars: Iceberg's runtime and drivers.
        short_life: whether the process ends with one verb.

    Raises:
        BadInput: other users may write to the class archive.
    """
    options = [SHORT_LIFE] if short_life else []
    if recording := os.environ.get(MADE_AT_EXIT):
        options += [f'"-XX:ArchiveClassesAtExit={recording}"', SILENT]
    elif (archive := class_archive(jars)).is_file():
        options += [f'"-XX:SharedArchiveFile={trusted(archive)}"', SILENT]
    return " ".join(options)
