"""Parquet's Bloom filters, by which a reader of one key skips row groups.

Arrow writes these filters but does not consult them. A filter is a sequence of blocks of 32 bytes. A value belongs to
one block, and sets one bit in each of the block's eight words.
See https://parquet.apache.org/docs/file-format/bloomfilter/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from hardpack.files.compact_protocol import Malformed, Reader, Struct

if TYPE_CHECKING:
    from hardpack.files.page_index import CountedFile

HEADER = 64
"""Bytes that are read for the header, which takes fewer than twenty."""
BLOCK = 32
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
"""One for each word of a block, as Parquet's format defines them."""
INTEGERS = {"INT32": 4, "INT64": 8}


def hashed_bytes(value: Any, physical_type: str) -> bytes | None:
    """Returns the bytes of a value that a Bloom filter hashes, None when no filter can be asked about the value.

    Args:
        value: a Python object.
        physical_type: the column's physical type in the Parquet file.
    """
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, UUID):
        value = value.bytes
    if isinstance(value, bytes):
        return value if physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY") else None
    width = INTEGERS.get(physical_type, 0)
    # Python's bool is an int too; a number that does not fit the column's width is in no row of the file
    fits = type(value) is int and -(1 << 8 * width) <= 2 * value < 1 << 8 * width
    return value.to_bytes(width, "little", signed=True) if width and fits else None


def rules_out(file: CountedFile, start: int, value: bytes) -> bool:
    """Returns whether a Bloom filter shows that no row of its column chunk has a value.

    A filter of an unknown kind rules no value out.

    Args:
        file: the data file, of which the filter's header and one block are read.
        start: where the filter begins in the file, bytes.
        value: as `hashed_bytes` gives it.

    Raises:
        OSError: the file is damaged.
    """
    import xxhash

    reader = Reader(file.read(start, min(HEADER, file.size - start)))
    blocks = _blocks(reader.struct())
    if blocks is None:
        return False
    hashed = xxhash.xxh64_intdigest(value)
    # the upper half chooses the block, the lower one the bits
    at = (hashed >> 32) * blocks >> 32
    block, word = file.read(start + reader.at + at * BLOCK, BLOCK), hashed & 0xFFFFFFFF
    return any(
        not int.from_bytes(block[4 * n : 4 * n + 4], "little") >> ((word * salt & 0xFFFFFFFF) >> 27) & 1
        for n, salt in enumerate(SALTS)
    )


def _blocks(header: Struct) -> int | None:
    """Returns how many blocks follow a filter's header, None when one of its three kinds is unknown.

    Three unions in the header name the kinds of algorithm, hash and compression.
    """
    try:
        size, kinds = header[1], [next(iter(header[field])) for field in (2, 3, 4)]
    except (KeyError, TypeError, StopIteration) as error:
        raise Malformed("its Bloom filter is not as Parquet has it") from error
    if kinds != [1, 1, 1]:
        return None
    if not isinstance(size, int) or size <= 0 or size % BLOCK:
        raise Malformed("its Bloom filter is not as Parquet has it")
    return int(size // BLOCK)
