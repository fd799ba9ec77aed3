"""Look before any work: Python, Java, git, disk and port. Standard library only, runs before the environment exists.

python3 infra/preflight.py [--port N]
"""

import argparse
import importlib.util
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

DISK_BYTES = 6 * 1024**3
JAVA = (17, 21)
PIP = Path(__file__).parent.parent / ".venv" / "bin" / "pip"


def problem(port: int | None) -> str | None:
    """Returns the first thing that is wrong, as one sentence with its mend, or None."""
    if sys.version_info < (3, 11):
        return f"Python is {sys.version.split()[0]}, 3.11 or newer is needed; name one with `make PYTHON=python3.11`."
    return java_problem() or tool_problem() or disk_problem() or (port_problem(port) if port else None)


def java_problem() -> str | None:
    """Returns what is wrong with Java, else None; Spark needs Java 17 or 21, from JAVA_HOME or PATH."""
    import os

    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    wish = "install Java 17 or 21 (Debian: openjdk-17-jre-headless) or point JAVA_HOME at one."
    if not java or not Path(java).is_file():
        return f"Java is missing; {wish}"
    text = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', text)
    if not found or int(found.group(1)) not in JAVA:
        return f"{java} is Java {found.group(1) if found else 'of an unknown version'}; {wish}"
    return None


def tool_problem() -> str | None:
    """Returns which tool is missing, else None: git, for one of the demo's topics, or venv with pip."""
    if not PIP.exists() and not importlib.util.find_spec("ensurepip"):
        return f"{sys.executable} makes no virtual environment with pip; install venv (Debian: python3-venv)."
    return None if shutil.which("git") else "git is missing; install it."


def disk_problem() -> str | None:
    """Returns a sentence when the disk lacks room for environment, jars and lakehouse, else None."""
    free = shutil.disk_usage(Path(__file__).parent).free
    if free < DISK_BYTES:
        return f"{free / 1024**3:.1f} GiB are free here, {DISK_BYTES / 1024**3:.0f} are needed; make room."
    return None


def port_problem(port: int) -> str | None:
    """Returns a sentence when the port of Airflow's server is taken on loopback, else None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return f"port {port} is taken; free it (`make down` stops a running demo) or choose with `make run PORT=N`."
    return None


def port_number(text: str) -> int:
    """Reads a port from an argument's text."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, expected 1 to 65535")
    return int(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=port_number, metavar="N", help="from 1 to 65535")
    if found := problem(parser.parse_args().port):
        sys.exit(f"hardpack: {found}")
