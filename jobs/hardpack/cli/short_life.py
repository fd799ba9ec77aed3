"""Makes a process that ends with one verb faster: it collects garbage seldom, and loads some libraries when called."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from io import TextIOWrapper
from types import ModuleType

from hardpack.errors import Unavailable

YOUNG = 100_000
"""New objects between two garbage collections; imports alone make four hundred thousand objects that stay."""
SELDOM_CALLED = ("scipy.stats",)
"""Modules that are loaded when they are first used. Great Expectations imports this one for one expectation, which
takes as long as a third of all other imports."""


def run(verb: Callable[[], None]) -> None:
    """Runs a verb, after which the process ends. It has to be called before anything heavy is imported.

    Args:
        verb: may end by `sys.exit`.
    """
    gc.set_threshold(YOUNG, 10, 10)
    sys.meta_path.insert(0, _LoadedWhenCalled())
    code = 1

    def leave() -> None:
        # at a normal end Python takes seconds to free what ends with the process anyway
        unwritten = 0
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # who reads it has enough
            pass
        except OSError as error:
            unwritten = Unavailable.exit_code  # the verb did its work, and could not say so
            sys.stderr.write(f"hardpack: what was to be printed could not be written: {error.strerror}.\n")
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code or unwritten)

    # Python calls what was registered first last, so that `leave` comes after all that the verb has registered
    atexit.register(leave)
    try:
        verb()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


class _LoadedWhenCalled(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a module of `SELDOM_CALLED` at its first use; None for others, loaded as ever."""
        if fullname not in SELDOM_CALLED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and spec.loader:
            spec.loader = LazyLoader(spec.loader)
        return spec


def main() -> None:
    """Runs the command line."""
    _see_to_streams()

    def command_line() -> None:
        try:
            from hardpack.cli.main import main as verbs
        except KeyboardInterrupt:
            sys.exit(130)
        except Exception as error:
            if not (said := _said_of(error)):
                raise
            sys.stderr.write(f"hardpack: {said}\n")
            sys.exit(2)
        verbs()

    run(command_line)


def _said_of(error: Exception) -> str:
    """Returns a sentence for an error of pyiceberg's configuration or of a folder that is gone; empty for other errors.

    pyiceberg reads its configuration when it is imported. The error's own text is left out, as it may quote a password.
    """
    try:
        os.getcwd()
    except OSError:
        return "the folder that you stand in is no longer there; go to another."
    if type(error).__module__.startswith("strictyaml"):
        mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        return (
            f".pyiceberg.yaml is none that pyiceberg can read{where}, expected NAME: VALUE by lines, without braces, "
            "tabs and anchors; mend it here, in your home or in PYICEBERG_HOME."
        )
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if not any(name.endswith(os.path.join("pyiceberg", "utils", "config.py")) for name in frames):
        return ""
    return (
        f"pyiceberg's configuration cannot be read ({type(error).__name__}), expected `catalog:` with a mapping for "
        "each catalog in .pyiceberg.yaml, as UTF-8, or variables PYICEBERG_CATALOG__NAME__PROPERTY; mend it."
    )


def _see_to_streams() -> None:
    """Makes stdout and stderr fit for any text: a closed one drops it, and unknown letters are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  it is open until the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
