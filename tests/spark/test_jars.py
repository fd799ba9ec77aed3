"""Jars are checked before they are used; no JVM, no network."""

import shutil

import pytest
from hardpack.errors import BadInput, Unavailable
from hardpack.spark import jars

SOME = jars.Jar("g", "a", "1", "0" * 64)


def test_a_jar_that_is_not_what_it_should_be_is_not_kept(tmp_path, monkeypatch):
    wrong = tmp_path / "found.jar"
    wrong.write_bytes(b"something else")
    monkeypatch.setattr(jars, "_resolve", lambda *_: wrong)
    with pytest.raises(BadInput, match=r"g:a:1 has the checksum .* do not use it"):
        jars.fetch(tmp_path / "jars", [SOME])
    assert not (tmp_path / "jars" / "a-1.jar").exists()


def test_a_jar_that_is_there_is_not_fetched_again(tmp_path, monkeypatch):
    (tmp_path / "a-1.jar").write_bytes(b"x")
    there = jars.Jar("g", "a", "1", jars.digest(tmp_path / "a-1.jar"))
    monkeypatch.setattr(jars, "run_ivy", lambda *_: pytest.fail("nothing is to be fetched"))
    assert jars.fetch(tmp_path, [there]) == [tmp_path / "a-1.jar"]


def test_what_cannot_be_fetched_and_where_java_is_missing_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(jars.subprocess, "run", lambda *_, **__: type("Done", (), {"stdout": "no way", "stderr": ""}))
    with pytest.raises(Unavailable, match=r"g:a:1 cannot be fetched \(no way\)"):
        jars.fetch(tmp_path, [SOME])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(BadInput, match="jars are fetched with Java"):
        jars.fetch(tmp_path, [SOME])


def test_others_may_not_write_where_jars_lie(tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "_one", lambda folder, _: folder)
    jars.fetch(tmp_path / "jars", [SOME])
    assert (tmp_path / "jars").stat().st_mode & 0o022 == 0


def test_java_is_the_one_that_spark_finds(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/opt/java17")
    assert jars.java_command() == "/opt/java17/bin/java"
    monkeypatch.delenv("JAVA_HOME")
    assert jars.java_command() == "java"
