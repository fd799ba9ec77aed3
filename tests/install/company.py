"""An environment as a company makes it: the wheel by plain pip, and a machine of which nothing else is known."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from infra.services.process import free_ports
from tests.conftest import ROOT

KEPT = ("PATH", "JAVA_HOME", "LANG", "PIP_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=2000, **more)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def build(folder, python):
    """The wheel, built of the tree as git would give it to somebody, so that building leaves nothing in ours."""
    source = folder / "source"
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source))
    return next(folder.glob("*.whl"))


@dataclass
class Company:
    """One environment in a folder, with a home of its own."""

    folder: Path
    env: dict[str, str]
    seconds: float
    """That pip took, downloads included."""

    @classmethod
    def of(cls, folder, python, *requirements):
        """Install what is required by one pip command into an empty environment."""
        run(python, "-m", "venv", str(folder / "venv"))
        programs = folder / "venv" / "bin"
        env = {k: v for k, v in os.environ.items() if k in KEPT} | {"HOME": str(folder)}
        env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
        # pip takes what it finds on that path for installed
        plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        began = time.monotonic()
        run(programs / "pip", "install", "-q", "--disable-pip-version-check", *requirements, env=plain)
        (folder / "work").mkdir()
        return cls(folder, env, time.monotonic() - began)

    def run(self, program, *arguments):
        """Run a program of the environment where nothing of the checkout is at hand."""
        return run(self.folder / "venv" / "bin" / program, *arguments, env=self.env, cwd=self.folder / "work")

    def main_job(self):
        """What the README's first command does, from what was installed; returns what it said."""
        self.run("hardpack", "jars")
        return self.run("python", "-m", "hardpack_airflow.demo", "run", "--port", str(free_ports(1)[0]))
