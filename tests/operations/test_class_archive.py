"""The archive of Java's classes: made once for some jars, and fit for the drivers that start from it."""

import subprocess
from pathlib import Path

import pytest
from hardpack.operations import class_archive as module
from hardpack.operations.class_archive import make_class_archive
from hardpack.spark.java_start import MADE_AT_EXIT, class_archive


@pytest.fixture
def jars(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "driver.jar").touch()
    return [tmp_path / "jars" / "driver.jar"]


@pytest.fixture
def doctor(monkeypatch):
    """What the process that exercises Java leaves, and how often it was started."""
    started = []

    def plant(leaves, code=0):
        def run(command, env, **_):
            started.append(Path(env["HARDPACK_HOME"], "jars").resolve())
            if leaves:
                open(env[MADE_AT_EXIT], "w").close()
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr(module.subprocess, "run", run)
        return started

    return plant


def test_it_is_made_once_and_again_for_other_jars(jars, doctor):
    started = doctor(leaves=True)
    first = make_class_archive()
    assert (first, first.is_file()) == (class_archive(jars), True)
    assert make_class_archive() == first
    assert len(started) == 1
    (jars[0].parent / "other.jar").touch()
    second = make_class_archive()
    assert (len(started), second.is_file(), first.is_file()) == (2, True, False)


def test_what_the_probe_writes_is_in_no_home_of_anybodys(jars, monkeypatch, tmp_path):
    """Made by root, as in an image, its folders would keep the pages of later gates from being written."""

    def run(command, env, **_):
        home = Path(env["HARDPACK_HOME"])
        assert home != tmp_path
        assert [jar.name for jar in (home / "jars").iterdir()] == ["driver.jar"]
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(module.subprocess, "run", run)
    make_class_archive()
    assert [path.name for path in tmp_path.iterdir()] == ["jars"]


def test_a_java_that_makes_none_is_no_error(jars, doctor):
    doctor(leaves=False)
    assert make_class_archive() is None
    assert [path.name for path in jars[0].parent.iterdir()] == ["driver.jar"]


def test_what_is_left_by_one_that_failed_half_way_is_no_archive(jars, doctor):
    doctor(leaves=True, code=2)
    assert make_class_archive() is None
    assert [path.name for path in jars[0].parent.iterdir()] == ["driver.jar"]


def test_a_home_that_is_named_from_the_current_folder_is_found_from_another(jars, doctor, tmp_path, monkeypatch):
    """The archive would be of Spark's classes alone, and nobody would be told."""
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("HARDPACK_HOME", tmp_path.name)
    started = doctor(leaves=True)
    make_class_archive()
    assert started == [tmp_path / "jars"]


def test_a_java_that_hangs_is_no_error(jars, monkeypatch):
    def hang(*_, timeout, **__):
        raise subprocess.TimeoutExpired("java", timeout)

    monkeypatch.setattr(module.subprocess, "run", hang)
    assert make_class_archive() is None


@pytest.mark.spark
def test_the_archive_that_make_jars_left_fits_the_drivers_java(spark):
    """Java takes it, or ends: `-Xshare:on` allows no start without."""
    from hardpack.spark.session import jar_paths

    archive = class_archive(jar_paths())
    assert archive.is_file()
    found = spark._jvm.java.lang.System.getProperty("java.class.path")
    command = ["java", "-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-cp", found, "-version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    given = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert f"-XX:SharedArchiveFile={archive}" in list(given)
