"""Code in a process of its own, whose Airflow has a home of its own."""

import subprocess
import sys

from tests.conftest import ROOT


def python(code, env, *arguments):
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments], env=env, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout
