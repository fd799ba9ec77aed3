"""Deletion vectors and position delete files: read as written, refused when damaged; no JVM."""

import dataclasses
import random
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardpack.errors import BadInput
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.puffin import VECTOR_MAGIC, read_vector, write_vectors
from hardpack.files.row_deletes import read_positions, read_positions_by_file, write_positions
from pyiceberg.manifest import DataFile, FileFormat
from pyroaring import BitMap

from tests.files.test_data_files import refs
from tests.topics import append, new_topic, row

SETS = [BitMap([3]), BitMap(range(0, 9000, 7)), BitMap(range(100, 70_000)), BitMap([0, 2**16, 2**31, 2**32 - 1])]


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(o, f"k{o}") for o in range(5)]})
    return table


def vectors(topic):
    """One vector for each set of positions, and how to read one whose blob was changed."""
    files, (ref,) = DataFiles.of(topic), refs(topic)
    for positions in SETS:
        (delete,) = write_vectors(files, {ref.path: positions}, {ref.path: ref})
        path = Path(delete.path.removeprefix("file://"))
        sound, (at, size) = path.read_bytes(), delete.blob
        blob = sound[at : at + size]

        def read(changed, path=path, sound=sound, at=at, delete=delete, size=size, **given):
            path.write_bytes(sound[:at] + changed + (sound[at + size :] if len(changed) == size else b""))
            return read_vector(files, ContentFile({**delete.entry, **given}))

        yield positions, blob, read


def damages(rng, blob):
    """A blob that is not the one given."""
    kind, changed = rng.randrange(5), bytearray(blob)
    at = rng.randrange(len(blob))
    if kind == 0:
        changed[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        changed[at] = rng.randrange(256)
    elif kind == 2:
        end = min(len(blob), at + rng.randrange(1, 20))
        changed[at:end] = rng.randbytes(end - at)
    elif kind == 3:
        other = rng.randrange(len(blob))
        changed[at], changed[other] = changed[other], changed[at]
    else:
        changed = changed[:at]
    return bytes(changed)


def test_no_damaged_vector_is_read_as_another_set(topic):
    rng = random.Random(7)
    refused = 0
    for positions, blob, read in vectors(topic):
        assert read(blob) == positions
        for _ in range(700):
            if (changed := damages(rng, blob)) == blob:
                continue
            with pytest.raises(BadInput, match=r"deletion vector of .* is damaged \(.*\); restore it"):
                read(changed)
            refused += 1
    assert refused > 2500


def framed(body):
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_a_vector_of_another_shape_is_refused_in_a_sentence(topic):
    positions, blob, read = next(vectors(topic))
    packed = positions.serialize()
    high = framed(struct.pack("<IQI", VECTOR_MAGIC, 1, 1) + packed)
    two = framed(struct.pack("<IQI", VECTOR_MAGIC, 2, 0) + packed + struct.pack("<I", 1) + packed)
    for changed in (high, two):
        with pytest.raises(BadInput, match=r"names positions outside 0 to 2\*\*32 - 1.*rewrite_data_files"):
            read(changed, **{"content-size-in-bytes": len(changed)})
    other = framed(struct.pack("<IQI", VECTOR_MAGIC + 1, 1, 0) + packed)
    with pytest.raises(BadInput, match="does not begin as deletion vectors do"):
        read(other, **{"content-size-in-bytes": len(other)})
    with pytest.raises(BadInput, match="1 positions, expected 2"):
        read(blob, **{"record-count": 2})
    torn = framed(struct.pack("<IQI", VECTOR_MAGIC, 1, 0) + packed[:-1])
    with pytest.raises(BadInput, match="is damaged"):
        read(torn, **{"content-size-in-bytes": len(torn)})
    none = framed(struct.pack("<IQ", VECTOR_MAGIC, 0))
    assert read(none, **{"content-size-in-bytes": len(none), "record-count": 0}) == BitMap()


def test_a_missing_vector_is_said(topic):
    files, (ref,) = DataFiles.of(topic), refs(topic)
    (delete,) = write_vectors(files, {ref.path: BitMap([1])}, {ref.path: ref})
    Path(delete.path.removeprefix("file://")).unlink()
    with pytest.raises(BadInput, match=r"deletion vector of .* is missing; restore it"):
        read_vector(files, delete)


def test_positions_of_many_files_in_one_delete_file_are_told_apart(topic):
    """Spark writes them by file and position; the spec asks for no order that a reader may lean on."""
    path = Path(topic.location().removeprefix("file://")) / "data" / "deletes.parquet"
    rows = [(f"f{n % 7}", n * 31 % 400) for n in range(300)]
    random.Random(3).shuffle(rows)
    pq.write_table(
        pa.table({"file_path": [p for p, _ in rows], "pos": pa.array([n for _, n in rows], pa.int64())}), path
    )
    delete = DataFile.from_args(file_path=f"file://{path}", file_format=FileFormat.PARQUET, record_count=len(rows))
    found = read_positions_by_file(DataFiles.of(topic), delete)
    assert found == {f"f{at}": BitMap(n for p, n in rows if p == f"f{at}") for at in range(7)}


def test_vectors_that_their_own_footer_names_are_read_as_written_or_refused(topic):
    """A reader without a JVM is told by pyiceberg in which file they are, and not where in it."""
    files, (ref,) = DataFiles.of(topic), refs(topic)
    others = {f"{ref.path}{str(at) * 9}": positions for at, positions in enumerate(SETS)}
    (delete, *_) = write_vectors(files, others, dict.fromkeys(others, ref))
    path = Path(delete.path.removeprefix("file://"))
    listed = DataFile.from_args(file_path=delete.path, file_format=FileFormat.PUFFIN, record_count=1)
    assert read_positions_by_file(files, listed) == others
    sound, rng, refused = path.read_bytes(), random.Random(11), 0
    for at in range(600):
        near_end = at % 2 and len(sound) - 1200
        path.write_bytes(sound[:near_end] + damages(rng, sound[near_end:]))
        with suppress(BadInput):
            refused += 1
            found = read_positions_by_file(files, listed)
            # a footer has no checksum: damaged, it may name a file that there is not
            assert all(others[name] == positions for name, positions in found.items() if name in others)
            refused -= 1
    assert refused > 300
    for broken in (b"", sound[: len(sound) // 2], b"PFA1" + bytes(40), sound[:-12] + b"\xff" * 8 + b"PFA1"):
        path.write_bytes(broken)
        with pytest.raises(BadInput, match=r"delete file .* is damaged"):
            read_positions_by_file(files, listed)


@pytest.mark.parametrize("rows", [0, 4, 6])
def test_a_delete_file_of_other_positions_than_its_manifest_counts_is_damaged(topic, rows):
    path = Path(topic.location().removeprefix("file://")) / "data" / "deletes.parquet"
    pq.write_table(pa.table({"file_path": ["f"] * rows, "pos": pa.array(range(rows), pa.int64())}), path)
    delete = DataFile.from_args(file_path=f"file://{path}", file_format=FileFormat.PARQUET, record_count=5)
    with pytest.raises(BadInput, match=f"is damaged \\({rows} positions, expected 5\\)"):
        read_positions_by_file(DataFiles.of(topic), delete)


def test_position_delete_files_are_read_as_written_or_refused(topic):
    """Only the positions are read: of those no damage goes unseen."""
    files, (ref,) = dataclasses.replace(DataFiles.of(topic), format_version=2), refs(topic)
    rng, positions = random.Random(7), BitMap(range(0, 900, 7))
    (delete,) = write_positions(files, {ref.path: positions}, {ref.path: ref})
    path = Path(delete.path.removeprefix("file://"))
    assert read_positions(files, delete) == positions
    sound = path.read_bytes()
    refused = 0
    for _ in range(500):
        path.write_bytes(damages(rng, sound))
        # in what nobody reads, as statistics are, damage does no harm
        with suppress(BadInput):
            refused += 1
            assert read_positions(files, delete) == positions
            refused -= 1
    assert refused > 150
    path.write_bytes(sound)
    pq.write_table(pa.table({"pos": np.array([1, 2**32], np.int64)}), path)
    with pytest.raises(BadInput, match=r"position delete file .* names positions outside"):
        read_positions(files, ContentFile({**delete.entry, "record-count": 2}))
