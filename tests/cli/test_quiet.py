"""A verb's output is the verb's: what Java and Spark say when they start stands in it only with --verbose."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.spark
START = """
import logging, sys
from hardpack.cli.log_output import begin_logging
from hardpack.spark.session import open_session
from pyiceberg.catalog import load_catalog
begin_logging(logging.INFO if sys.argv[1] else logging.ERROR, sys.stderr)
logging.getLogger("py4j").setLevel(logging.WARNING)
catalog = load_catalog("hardpack", type="sql", uri=f"sqlite:///{sys.argv[2]}/c.db", warehouse="file:///w")
print(open_session(catalog).range(3).count())
"""


@pytest.mark.parametrize("verbose", ["", "verbose"])
def test_what_spark_says_when_it_starts_is_not_the_verbs_output(tmp_path, verbose):
    env = os.environ | {"HARDPACK_HOME": str(ROOT / ".hardpack")}
    done = subprocess.run(
        [sys.executable, "-c", START, verbose, str(tmp_path)], env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert bool(done.stderr) == bool(verbose)
