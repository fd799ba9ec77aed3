"""Long texts in metadata: what was packed or put into a file reads as it was, damage is told."""

import random
import string

import pytest
from hardpack.table.packing import BZ2, FILED, MOST_INLINE, SHORT, ZLIB, Lost, PassFolder, files_named, packed, unpacked
from pyiceberg.io.pyarrow import PyArrowFileIO

NOISE = "".join(random.Random(1).choices(string.ascii_letters, k=100_000))


@pytest.fixture
def folder(tmp_path):
    return PassFolder(PyArrowFileIO(), f"file://{tmp_path}")


@pytest.mark.parametrize(
    ("text", "begins"), [("x" * SHORT, "x"), ("x" * 100_000, BZ2), (NOISE[:4200], ZLIB), (NOISE, FILED)]
)
def test_a_text_stands_where_it_fits(folder, text, begins):
    kept = folder.kept(text)
    assert kept.startswith(begins)
    assert len(kept) <= MOST_INLINE
    assert folder.text(kept) == text


def test_a_file_that_is_gone_or_damaged_is_lost(folder, tmp_path):
    kept = folder.kept(NOISE)
    (file,) = (tmp_path / "metadata" / "hardpack-passes").iterdir()
    assert files_named(iter([kept, "other"])) == {file.name}
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:50] + b"!" + whole[51:], b""):
        file.write_bytes(damaged)
        with pytest.raises(Lost):
            folder.text(kept)
    file.unlink()
    with pytest.raises(Lost):
        folder.text(kept)


@pytest.mark.parametrize(
    "text",
    [
        way + rest
        for way in (ZLIB, BZ2)
        for rest in ("", "abc", "~" * 9, packed("y" * 9000)[3:-9], packed(NOISE[:9000])[3:-9])
    ],
)
def test_a_packed_text_that_is_damaged_is_no_text(text):
    with pytest.raises(ValueError, match=r"[\s\S]*"):
        unpacked(text)
