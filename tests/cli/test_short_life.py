"""A verb's process ends as it should, though it tidies nothing up, and loads less."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys
from hardpack.cli import short_life
def verb():
    atexit.register(lambda: print("tidied"))
    print("done")
    {ending}
short_life.run(verb)
"""


def run(ending):
    program = PROGRAM.format(ending=ending)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("ending", "code"),
    [("pass", 0), ("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(3)", 3), ("sys.exit('why')", 1), ("1 / 0", 1)],
)
def test_the_exit_code_is_the_verbs_and_what_others_want_done_at_the_end_is_done(ending, code):
    done = run(ending)
    assert done.returncode == code
    assert done.stdout.split() == ["done", "tidied"]
    assert ("ZeroDivisionError" in done.stderr) == (ending == "1 / 0")
    assert ("why" in done.stderr) == ("why" in ending)


def test_what_is_seldom_called_is_loaded_when_it_is_called():
    done = run("""
    import scipy.stats
    kind = type(scipy.stats).__name__
    assert "scipy.stats._stats_py" not in sys.modules
    from scipy import stats
    print(kind, stats.norm.cdf(0), stats is scipy.stats)
    """)
    assert done.stdout.split() == ["done", "_LazyModule", "0.5", "True", "tidied"], done.stderr
