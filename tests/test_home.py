"""Jars and policies are obeyed only from where nobody else can have put them; names of files are never shared."""

import os
import sys
from pathlib import Path

import pytest
from hardpack.compaction.data_docs import newest_pages, page_title
from hardpack.compaction.report import LogReport
from hardpack.errors import BadInput
from hardpack.home import default_home, file_name, replace_file, trusted
from hardpack.policy.file import load_policies, policies_in_force
from hardpack.spark.session import jar_paths

POLICY = "policies: [{name: a, tables: [a.b]}]"


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "project" / ".hardpack"
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "x.jar").write_bytes(b"x")
    (folder / "hardpack.yaml").write_text(POLICY)
    monkeypatch.delenv("HARDPACK_HOME", raising=False)
    monkeypatch.delenv("HARDPACK_POLICIES", raising=False)
    monkeypatch.chdir(folder.parent)
    return folder


def test_a_home_without_a_name_is_the_usual_one(home, monkeypatch):
    """As `${VAR:-}` in a unit file gives it."""
    monkeypatch.setenv("HARDPACK_HOME", "")
    assert default_home() == home


def test_a_policy_file_that_leads_nowhere_is_not_none(home):
    (home / "hardpack.yaml").unlink()
    assert policies_in_force() is None
    (home / "hardpack.yaml").symlink_to(home / "gone.yaml")
    with pytest.raises(BadInput, match="the policies cannot be read"):
        policies_in_force()


def test_what_is_ours_is_obeyed(home):
    assert jar_paths() == [home / "jars" / "x.jar"]
    assert policies_in_force()


@pytest.mark.parametrize("what", [".", "jars", "jars/x.jar"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_jars_that_others_may_write_are_refused(home, what, mode):
    place = home / what
    place.chmod(place.stat().st_mode | mode)
    with pytest.raises(BadInput, match=r"writable by nobody else.*chmod go-w"):
        jar_paths()


@pytest.mark.parametrize("what", [".", "hardpack.yaml"])
def test_policies_that_others_may_write_are_refused(home, what):
    (home / what).chmod(0o777)
    with pytest.raises(BadInput, match="writable by nobody else"):
        policies_in_force()


@pytest.mark.parametrize("what", [".", "jars", "jars/x.jar"])
def test_what_is_anothers_is_refused_though_only_they_may_write_to_it(home, monkeypatch, what):
    real, theirs = type(home).stat, (home / what).stat().st_ino

    def stat(self, **options):
        found = real(self, **options)
        return os.stat_result((*found[:4], 12345, *found[5:10])) if found.st_ino == theirs else found

    monkeypatch.setattr(type(home), "stat", stat)
    with pytest.raises(BadInput, match="owned by user 12345"):
        jar_paths()


def test_what_is_roots_is_obeyed(home, monkeypatch):
    """As in an image, where the user who runs it may not change what is run."""
    real = type(home).stat
    monkeypatch.setattr(
        type(home), "stat", lambda self, **o: os.stat_result((*(f := real(self, **o))[:4], 0, *f[5:10]))
    )
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert jar_paths()


def test_a_sticky_folder_lets_nobody_replace_a_file(home):
    (home / "hardpack.yaml").parent.chmod(0o1777)
    assert trusted(home / "hardpack.yaml")


def test_without_a_home_nothing_is_looked_at(home, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(home / "none"))
    assert jar_paths() == []
    assert policies_in_force() is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "byte 0 is no UTF-8"),
        (POLICY.encode() + b" # \xe9", "is no UTF-8"),
        (b"policies: " + b"[" * 3000 + b"]" * 3000, "nested too deep"),
        (b"policies: " + b"{a: " * 3000 + b"b" + b"}" * 3000, "nested too deep"),
    ],
)
def test_a_policy_file_that_is_none_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "hardpack.yaml"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=said):
        load_policies(path)


TEXTS = [
    "my:run",
    "my_run",
    "my run",
    "my/run",
    "..",
    ".",
    "",
    "x" * 250,
    "x" * 249 + "y",
    "ü" * 90,
    "u" * 90,
    "\ud800",
]


def test_names_are_short_plain_and_never_the_same():
    texts = [*TEXTS, *(file_name(text) for text in TEXTS)]
    names = [file_name(text) for text in texts]
    assert len(set(names)) == len(set(texts))
    assert all(0 < len(name.encode()) <= 100 and name.strip(".") for name in names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") for name in names)
    assert file_name("db.orders") == "db.orders"
    assert file_name("db.orders", dots=False) != "db_orders"


def test_tables_with_long_and_alike_names_have_pages_of_their_own(tmp_path):
    log = LogReport(
        partition="a/b", checkpoint_before=None, checkpoint_after=9, log_end=12, rows_before=12, rows_after=5,
        bytes_before=1, bytes_after=1, superseded=7,
    )  # fmt: skip
    tables = ["db.t", "db.t_partition_x", "db." + "t" * 250, "db." + "t" * 251, "db.a b", "db.a_b"]
    for table in tables:
        folder = page_title(table, [log.partition], "published 1").replace(" ", "_")
        assert len(folder) < 255
        page = tmp_path / "validations" / "suite" / folder / "20261122T075923.725887Z"
        page.mkdir(parents=True)
        (page / "page.html").write_text("fine")
    for table in tables:
        assert len(newest_pages(tmp_path, 9, table)) == 1


def test_a_key_comes_by_standard_input(monkeypatch, capsys):
    import io

    from hardpack import Hardpack
    from hardpack.cli import main as cli

    asked = []

    class Stub:
        def explain(self, table, key, now, partition):
            asked.append(key)
            raise BadInput("enough")

    monkeypatch.setattr(Hardpack, "connect", lambda *_: Stub())
    for given, *options in [(b"k1\n",), (b"\x00\xff",), (b"6b6579\n", "--hex"), (b"k\r\n",)]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        monkeypatch.setattr(sys, "argv", ["hardpack", "explain", "db.t", "--key", "-", *options])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
    assert asked == [b"k1", b"\x00\xff", b"key", b"k"]
    monkeypatch.setattr(sys, "argv", ["hardpack", "explain", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "standard input" in " ".join(capsys.readouterr().out.split())


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "reports" / "a.json"
    replace_file(file, "before")
    real = Path.write_text

    def full(path, text):
        real(path, text[: len(text) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, "after")
    assert file.read_text() == "before"
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]
