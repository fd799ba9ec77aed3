"""Deletion vectors: dead positions of data files as roaring bitmaps, which are the blobs of a pass's one Puffin file.

Format: Iceberg's Puffin spec, blob type `deletion-vector-v1`.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap

from hardpack.errors import BadInput
from hardpack.files.damage import damaged, readable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hardpack.files.content_file import ContentFile
    from hardpack.files.data_files import DataFiles

MAGIC = b"PFA1"
VECTOR_MAGIC = 0x6439D3D1
POSITION_FIELD = 2147483645
FRAME = 20
"""Bytes of a blob before its bitmap: length, magic, number of bitmaps, and the key of the only one."""
VECTOR, OF, ROWS = "deletion-vector-v1", "referenced-data-file", "cardinality"
"""A deletion vector's blob type in the Puffin footer, and the names of its properties there."""
EMPTY = bytes(20)
"""As long as a deletion vector without bitmaps: length, magic, number of bitmaps and checksum."""


def bitmap(positions: NDArray[Any]) -> BitMap:
    """Makes a bitmap of positions below 2**32. BitMap takes Python's arrays whole, NumPy's number by number."""
    return BitMap(array("I", positions.astype(np.uint32).tobytes()))


def read_vector(files: DataFiles, delete: ContentFile) -> BitMap:
    """Returns the positions that a deletion vector names.

    Args:
        files: reads the table's files.
        delete: the deletion vector.

    Raises:
        BadInput: the vector is gone or damaged, or names positions from 2**32 on.
        Unavailable: the storage does not answer.
    """
    what = f"{files.name}: the deletion vector of {delete.data_file} in {delete.path}"
    offset, size = delete.blob
    with readable(what), files.io.new_input(delete.path).open() as stream:
        stream.seek(offset)
        blob = stream.read(size)
    return _positions(what, blob, size, delete.rows)


def read_vectors(files: DataFiles, path: str) -> dict[str, BitMap]:
    """Returns by data file path the positions that the deletion vectors of a Puffin file name.

    The Puffin file's footer tells where each vector is.

    Args:
        files: reads the table's files.
        path: the Puffin file's.

    Raises:
        BadInput: the file is gone or damaged, or a vector names positions from 2**32 on.
        Unavailable: the storage does not answer.
    """
    what = f"{files.name}: delete file {path}"
    with readable(what), files.io.new_input(path).open() as stream:
        data = stream.read()
    vectors = dict[str, BitMap]()
    for blob in _blobs(what, data):
        try:
            begin, size = int(blob["offset"]), int(blob["length"])
            of, rows = str(blob["properties"][OF]), int(blob["properties"][ROWS])
        except (KeyError, TypeError, ValueError):
            raise damaged(what, "its footer does not tell where a vector is, and whose") from None
        vector = f"{files.name}: the deletion vector of {of} in {path}"
        vectors[of] = _positions(vector, data[begin : begin + size], size, rows)
    return vectors


def _blobs(what: str, data: bytes) -> list[dict[str, Any]]:
    """Returns the entries of the deletion vectors in a Puffin file's footer."""
    end = data[-12:]
    length, flags = struct.unpack("<ii", end[:8]) if len(end) == 12 else (0, 0)
    footer = data[-length - 16 : -12] if 0 < length <= len(data) - 20 else b""
    if end[8:] != MAGIC or footer[:4] != MAGIC or flags:
        raise damaged(what, "it does not end as a Puffin file whose footer is not compressed")
    try:
        return [blob for blob in json.loads(footer[4:])["blobs"] if blob["type"] == VECTOR]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise damaged(what, "its footer is none of a Puffin file") from None


def _positions(what: str, blob: bytes, size: int, cardinality: int) -> BitMap:
    """Returns the positions in a deletion vector's blob, checked as Iceberg's `BitmapPositionDeleteIndex` does."""
    if len(blob) != size or size < len(EMPTY):
        raise damaged(what, f"{len(blob)} bytes, expected {max(size, len(EMPTY))}")
    body = blob[4:-4]
    if struct.unpack_from(">I", blob)[0] != len(body):
        raise damaged(what, "the length that it begins with is wrong")
    if struct.unpack_from(">I", blob, len(blob) - 4)[0] != zlib.crc32(body):
        raise damaged(what, "its checksum is wrong")
    magic, bitmaps = struct.unpack_from("<IQ", body)
    if magic != VECTOR_MAGIC:
        raise damaged(what, "it does not begin as deletion vectors do")
    positions = BitMap()
    if bitmaps:
        if bitmaps > 1 or len(blob) < FRAME + 4 or struct.unpack_from("<I", blob, FRAME - 4)[0]:
            raise too_far(what)
        try:
            positions = BitMap.deserialize(blob[FRAME:-4])
        except ValueError as error:
            raise damaged(what, str(error)) from None
    if len(positions) != cardinality:
        raise damaged(what, f"{len(positions)} positions, expected {cardinality}")
    return positions


def too_far(what: str) -> BadInput:
    """Returns the error for positions outside 0 to 2**32 - 1, which the bitmaps used here cannot hold."""
    return BadInput(
        f"{what} names positions outside 0 to 2**32 - 1, expected a file of fewer rows; have Iceberg rewrite the file "
        "(rewrite_data_files)."
    )


def write_vectors(files: DataFiles, dead: Mapping[str, BitMap], data: Mapping[str, ContentFile]) -> list[ContentFile]:
    """Writes one deletion vector for each data file, all into one new Puffin file that no snapshot knows of.

    Args:
        files: writes the table's files.
        dead: positions by data file path, below 2**32.
        data: the data files by path.

    Returns:
        The delete files, one for each data file.
    """
    if not dead:
        return []
    out, blobs, places = bytearray(MAGIC), [], []
    location = files.new_location(f"hardpack-{uuid.uuid4()}-deletes.puffin")
    for path, positions in dead.items():
        blob = _blob(positions)
        places.append((len(out), len(blob)))
        blobs.append(
            {
                "type": VECTOR,
                "fields": [POSITION_FIELD],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(out),
                "length": len(blob),
                "properties": {OF: path, ROWS: str(len(positions))},
            }
        )
        out += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    out += MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + MAGIC
    with files.created(location) as stream:
        stream.write(bytes(out))
    named = zip(dead.items(), places, strict=True)
    return [data[path].delete_file(location, len(out), len(positions), place) for (path, positions), place in named]


def _blob(positions: BitMap) -> bytes:
    packed = positions.copy()
    packed.run_optimize()
    body = struct.pack("<IQI", VECTOR_MAGIC, 1, 0) + packed.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
