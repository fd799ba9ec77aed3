"""How Java starts: where it finds jars and classes, and that a missing or unfit archive costs nothing but time."""

import re
import shlex
import subprocess

import pytest
from hardpack.spark import java_start, session
from hardpack.spark.java_start import SHORT_LIFE, class_archive, driver_class_path, found_by, java_options
from pyspark import SparkConf


@pytest.fixture
def jars(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.delenv(java_start.MADE_AT_EXIT, raising=False)
    (tmp_path / "jars").mkdir()
    found = [tmp_path / "jars" / name for name in ("iceberg.jar", "driver.jar")]
    for jar in found:
        jar.touch()
    return found


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4, 3]"])
def test_a_local_driver_alone_needs_the_jars(jars, master):
    assert found_by(jars, master) == {"spark.driver.extraClassPath": driver_class_path(jars)}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
def test_executors_elsewhere_are_sent_the_jars(jars, master):
    assert found_by(jars, master) == {"spark.jars": ",".join(map(str, jars))}


def test_a_session_of_its_own_start_is_no_user(monkeypatch):
    """Else the next session of the process would be local, too, and send its executors no jars."""
    monkeypatch.setattr(session, "_STARTED", {"spark.master": "local[2]"})
    conf = SparkConf(loadDefaults=False).set("spark.master", "local[2]").set("spark.app.name", "mine")
    assert session._given(conf) == {"spark.app.name": "mine"}


def test_an_archive_is_used_where_it_was_made(jars):
    assert "SharedArchiveFile" not in java_options(jars, short_life=False)
    class_archive(jars).touch()
    assert f"-XX:SharedArchiveFile={class_archive(jars)}" in java_options(jars, short_life=False)
    # for other jars it does not fit
    assert "SharedArchiveFile" not in java_options(jars[:1], short_life=False)


def test_a_home_behind_a_link_has_the_same_archive(jars, tmp_path, monkeypatch):
    before = class_archive(jars), driver_class_path(jars)
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path / "link"))
    again = [tmp_path / "link" / "jars" / jar.name for jar in jars]
    assert (class_archive(again), driver_class_path(again)) == before


def test_java_compiles_little_only_for_a_short_life(jars):
    assert SHORT_LIFE in java_options(jars, short_life=True)
    assert SHORT_LIFE not in java_options(jars, short_life=False)


def test_java_goes_on_silently_without_an_archive_that_does_not_fit(jars):
    class_archive(jars).write_text("no archive")
    options = shlex.split(java_options(jars, short_life=True))
    done = subprocess.run(["java", *options, "-version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert "warning" not in done.stderr.lower()


def test_a_process_of_much_work_keeps_the_code_that_it_has_compiled(jars):
    options = shlex.split(java_options(jars, short_life=True))
    done = subprocess.run(["java", *options, "-XX:+PrintFlagsFinal", "-version"], capture_output=True, text=True)
    assert re.search(r"ReservedCodeCacheSize\s+= (\d+)", done.stdout)[1] == str(240 << 20)
