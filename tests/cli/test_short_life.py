"""A verb's process ends as it should, though it tidies nothing up, and loads less."""

import os
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


def hardpack(*arguments, cwd, **more):
    code = "from hardpack.cli.short_life import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=cwd, text=True, stderr=subprocess.PIPE, **more)


@pytest.mark.parametrize("text", ["catalog: {a: {type: sql, uri: secret}}", "a:\n\t- b: secret", "a: &b secret\nc: *b"])
def test_a_configuration_that_pyiceberg_cannot_read_is_a_sentence(tmp_path, text):
    (tmp_path / ".pyiceberg.yaml").write_text(text)
    env = {**os.environ, "PYICEBERG_HOME": str(tmp_path)}
    said = hardpack("--version", cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    assert said.returncode == 2, said.stderr
    assert said.stderr.startswith("hardpack: .pyiceberg.yaml is none that pyiceberg can read in line ")
    assert said.stderr.count("\n") == 1
    assert "secret" not in said.stderr


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        (
            {".pyiceberg.yaml": b"catalog:\n  hardpack: postgres\n"},
            {"PYICEBERG_CATALOG__HARDPACK__URI": "x://a:secret@b"},
        ),
        ({}, {"PYICEBERG_CATALOG": "x", "PYICEBERG_CATALOG__HARDPACK__URI": "x://a:secret@b"}),
        ({".pyiceberg.yaml": b""}, {}),
        ({".pyiceberg.yaml": b"- secret\n"}, {}),
        ({".pyiceberg.yaml": b"catalog: \xff\xfe secret"}, {}),
    ],
)
def test_a_configuration_of_another_shape_is_a_sentence_without_its_values(tmp_path, files, variables):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    env = {**os.environ, "PYICEBERG_HOME": str(tmp_path), **variables}
    said = hardpack("--version", cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1), said.stderr
    assert said.stderr.startswith("hardpack: ")
    assert "pyiceberg" in said.stderr
    assert "secret" not in said.stderr


def test_letters_that_a_terminal_does_not_know_are_written_as_numbers():
    program = "import sys; from hardpack.cli import short_life as s; s._see_to_streams(); sys.stdout.write('0 → 4')"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "0 \\u2192 4")


def test_a_verb_whose_output_is_closed_does_its_work(tmp_path):
    said = hardpack("--version", cwd=tmp_path, preexec_fn=lambda: os.close(1))
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize(
    ("ending", "where", "code", "said"),
    [
        ("pass", "closed", 0, ""),
        ("sys.exit(3)", "closed", 3, ""),
        ("pass", "/dev/full", 5, "could not be written: No space left on device"),
        ("sys.exit(3)", "/dev/full", 3, "could not be written"),
    ],
)
def test_output_that_nobody_takes_hides_no_exit_code(ending, where, code, said):
    if where == "closed":
        reader, out = os.pipe()
        os.close(reader)
    else:
        out = os.open(where, os.O_WRONLY)
    program = PROGRAM.format(ending=ending).replace('atexit.register(lambda: print("tidied"))', "pass")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", program], env=env, stdout=out, stderr=subprocess.PIPE, text=True)
    os.close(out)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == bool(said)
