"""Long texts in a table's metadata: packed in place, or moved to a file beside the table, which is named in place."""

from __future__ import annotations

import base64
import bz2
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

SHORT = 4096
"""Characters up to which a text is not packed."""
MOST_INLINE = 8192
"""Characters up to which a packed text stands in a snapshot's summary."""
ZLIB, BZ2, FILED = "z1:", "z2:", "file:"
"""How a text begins that zlib packed, one that bz2 packed, and one that names a file."""
FOLDER = "metadata/hardpack-passes"
MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of an unpacked text; a longer one is not hardpack's."""


class Lost(Exception):
    """The file that a text stood in is gone or damaged."""


def packed(text: str) -> str:
    """Returns a short text as it is, and a long one compressed, in characters that JSON need not escape."""
    if len(text) <= SHORT:
        return text
    whole = text.encode()
    # bz2 is better at many numbers, zlib at few
    ways = ((ZLIB, zlib.compress(whole, 9)), (BZ2, bz2.compress(whole, 9)))
    way, short = min(ways, key=lambda tried: len(tried[1]))
    return way + base64.b85encode(short).decode()


def unpacked(text: str) -> str:
    """Returns the text that `packed` was given.

    Raises:
        ValueError: it is damaged.
    """
    way, short = text[: len(ZLIB)], text[len(ZLIB) :]
    if way not in (ZLIB, BZ2):
        return text
    try:
        reader = zlib.decompressobj() if way == ZLIB else bz2.BZ2Decompressor()
        data = reader.decompress(base64.b85decode(short), MOST_BYTES)
    except (zlib.error, OSError, EOFError) as error:
        raise ValueError(str(error)) from None
    if not reader.eof:
        raise ValueError("the packed text is cut off or too long")
    return data.decode()


@dataclass(frozen=True)
class PassFolder:
    """The folder beside a table for what is too long for snapshots' summaries.

    No file in it is needed to go on. Where one is lost, what its pass did is no longer told. After a rollback to that
    pass its logs are cleaned from their start.
    """

    io: FileIO
    location: str

    @classmethod
    def of(cls, table: Table) -> PassFolder:
        """Returns the folder of a table as it was loaded."""
        return cls(table.io, table.location())

    def kept(self, text: str) -> str:
        """Returns what a summary has for a text: the text, the packed text, or the name of a new file that holds it."""
        short = packed(text)
        if len(short) <= MOST_INLINE:
            return short
        name = hashlib.sha256(short.encode()).hexdigest()
        with self.io.new_output(self._path(name)).create(overwrite=True) as stream:
            stream.write(short.encode())
        return FILED + name

    def text(self, kept: str) -> str:
        """Returns the text that `kept` stands for.

        Raises:
            Lost: its file is gone or damaged.
            OSError: the storage does not answer.
        """
        try:
            if kept.startswith(FILED):
                name = kept.removeprefix(FILED)
                with self.io.new_input(self._path(name)).open() as stream:
                    kept = stream.read().decode()
                if hashlib.sha256(kept.encode()).hexdigest() != name:
                    raise Lost(name)
            return unpacked(kept)
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
            # where listing is not allowed, S3 answers for a missing file that reading it is forbidden
            raise Lost(str(error)) from None

    def _path(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{FOLDER}/{name}.z1"


def files_named(texts: Iterator[str]) -> set[str]:
    """Returns the names of the files in the folder that summaries name in place of texts."""
    return {f"{text.removeprefix(FILED)}.z1" for text in texts if text.startswith(FILED)}
