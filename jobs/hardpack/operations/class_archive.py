"""Makes the archive of Java's classes from which Spark starts in half the time, by one small pass per set of jars."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hardpack.policy.file import VARIABLE
from hardpack.spark.java_start import MADE_AT_EXIT, class_archive
from hardpack.spark.session import jar_paths

CATALOG = "classes"
LONGEST_SECONDS = 300


def make_class_archive() -> Path | None:
    """Makes the archive for the jars of this home, unless there is one; removes archives for other jars.

    Returns:
        The archive's path. None where this Java makes none, as when a folder of settings is on Spark's class path, and
        None where the probe that loads the classes failed. Spark works without an archive, and starts more slowly.

    Raises:
        BadInput: other users may write to the jars.
    """
    archive = class_archive(jar_paths())
    for old in archive.parent.glob("classes-*.jsa"):
        if old != archive:
            old.unlink()
    if archive.is_file():
        return archive
    with tempfile.TemporaryDirectory(prefix="hardpack-classes-") as scratch:
        warehouse, home = f"PYICEBERG_CATALOG__{CATALOG.upper()}__", Path(scratch, "home")
        # a home of its own: nobody needs the probe's pages, and folders made here as another user could not be written
        home.mkdir(mode=0o700)
        (home / "jars").symlink_to(archive.parent.resolve())
        environment = os.environ | {
            "PYICEBERG_HOME": scratch,
            f"{warehouse}TYPE": "sql",
            f"{warehouse}URI": f"sqlite:///{scratch}/catalog.db",
            f"{warehouse}WAREHOUSE": f"file://{scratch}",
            "HARDPACK_SPARK_MASTER": "local[2]",
            "HARDPACK_HOME": str(home),
            # the path may be relative to the current folder, and the probe runs in another
            **({VARIABLE: str(Path(given).resolve())} if (given := os.environ.get(VARIABLE)) else {}),
            MADE_AT_EXIT: str(archive.with_suffix(".new")),
        }
        command = [sys.executable, "-c", "from hardpack.cli.main import main; main()", "--catalog", CATALOG, "doctor"]
        try:
            done = subprocess.run(command, env=environment, cwd=scratch, capture_output=True, timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode or not archive.with_suffix(".new").is_file():
        # an archive of a probe that failed half-way lacks the classes of the other half
        archive.with_suffix(".new").unlink(missing_ok=True)
        return None
    archive.with_suffix(".new").chmod(0o644)
    archive.with_suffix(".new").replace(archive)
    return archive
