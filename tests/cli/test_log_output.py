"""What a verb logs: its own warnings, of libraries errors alone; with --verbose all."""

import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys
from hardpack.cli.main import shared
shared(catalog="c", verbose=bool(sys.argv[1]), _version=False)
for name in ("hardpack.table.catalog", "pyiceberg"):
    for level in ("info", "warning", "error"):
        getattr(logging.getLogger(name), level)("%s of %s", level, name)
"""


@pytest.mark.parametrize(
    ("verbose", "own", "others"),
    [("", {"warning", "error"}, {"error"}), ("v", {"info", "warning", "error"}, {"info", "warning", "error"})],
)
def test_our_own_warnings_are_shown_and_those_of_libraries_with_verbose(verbose, own, others):
    said = subprocess.run([sys.executable, "-c", PROGRAM, verbose], capture_output=True, text=True).stderr
    told = {"hardpack.table.catalog": set(), "pyiceberg": set()}
    for line in said.splitlines():
        level, _, name = line.rpartition(": ")[2].partition(" of ")
        told[name].add(level)
    assert told == {"hardpack.table.catalog": own, "pyiceberg": others}
