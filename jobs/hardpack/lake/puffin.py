"""Deletion vectors in a Puffin file: dead positions of data files, one roaring bitmap each.

Format: Iceberg's Puffin spec, blob type `deletion-vector-v1`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from pyroaring import BitMap

MAGIC = b"PFA1"
VECTOR_MAGIC = 0x6439D3D1
POSITION_FIELD = 2147483645


@dataclass(frozen=True, slots=True)
class Vector:
    """Where one data file's vector lies in the Puffin file (bytes), and how many rows it deletes."""

    offset: int
    length: int
    cardinality: int


def encode(dead: Mapping[str, BitMap]) -> tuple[bytes, dict[str, Vector]]:
    """A whole Puffin file and the place of each vector in it.

    Args:
        dead: dead row positions by data file path; positions are below 2**32.
    """
    out, vectors, blobs = bytearray(MAGIC), {}, []
    for path, positions in dead.items():
        blob = _blob(positions)
        vectors[path] = Vector(len(out), len(blob), len(positions))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [POSITION_FIELD],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(out),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
            }
        )
        out += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    out += MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + MAGIC
    return bytes(out), vectors


def _blob(positions: BitMap) -> bytes:
    body = struct.pack("<IQI", VECTOR_MAGIC, 1, 0) + positions.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body) & 0xFFFFFFFF)
