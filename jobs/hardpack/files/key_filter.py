"""Key filters: the hashes of a clean file's keys, kept so that later passes need not read the file in vain.

A pass that has read a clean file in vain makes its filter, a small Parquet file under the table's location that no
snapshot knows of. It may be lost at any time, as orphan removal deletes it, and is made again. A filter that is
damaged, or was made by another hash or of other columns, counts as none.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO

    from hardpack.files.content_file import ContentFile

    Longs = NDArray[np.uint64]

log = logging.getLogger(__name__)

BITS = 48
"""Bits kept of each hash. Half a million keys collide with a million others by chance in one file of five hundred."""
LEAST_BITS, MOST_BITS = 16, 27
VERSION = 2
"""Version of a filter's layout; a filter of another version counts as none."""
IDENTITY, DIGEST = b"hardpack.keys", b"hardpack.digest"
"""Names in the filter's Parquet metadata: whose keys these are, and a digest over that and the hashes."""
FOLDER = "metadata/hardpack-keys"
"""The folder of key filters, under the table's location."""


def filter_name(path: str) -> str:
    """Returns the file name of a data file's key filter."""
    return f"{hashlib.blake2b(path.encode(), digest_size=16).hexdigest()}.parquet"


class Wanted:
    """The keys that a pass looks for, ready to be compared with many filters.

    Args:
        hashes: the first half of each key's hash.
    """

    def __init__(self, hashes: Longs) -> None:
        self._hashes = hashes
        # sixteen times as many places as keys: most of a filter's hashes fall on a free one
        self._bits = min(MOST_BITS, max(LEAST_BITS, len(hashes).bit_length() + 4))
        self._taken = np.zeros(1 << self._bits, bool)
        self._taken[hashes >> np.uint64(64 - self._bits)] = True

    @cached_property
    def _short(self) -> Longs:
        return np.sort(self._hashes >> np.uint64(64 - BITS))

    def near(self, hashes: Longs) -> NDArray[np.bool_]:
        """Returns for each hash whether it may be that of a wanted key.

        Of the hashes that are not, one in eight or fewer pass.
        """
        return np.asarray(self._taken[hashes >> np.uint64(64 - self._bits)])

    def any_in(self, hashes: Longs) -> bool:
        """Returns whether one of the wanted keys may be among those of a filter, given the filter's hashes."""
        near = hashes[self._taken[hashes >> np.uint64(BITS - self._bits)]]
        if not len(near):
            return False
        at = np.searchsorted(self._short, near)
        at[at == len(self._short)] = 0
        return bool((self._short[at] == near).any())


@dataclass(frozen=True)
class KeyFilters:
    """The filters of one table's data files."""

    io: FileIO
    location: str
    """The table's location."""
    identity: str
    """What the hashes depend on beside the file: the hash function, the key's column and what tells a control row."""
    min_rows: int
    """Files of fewer rows have no filter."""
    makes: bool = True
    """Whether files without a filter get one."""

    def rules_out(self, file: ContentFile, log_name: str, wanted: Callable[[], Wanted]) -> bool:
        """Returns whether the file has a filter and none of the wanted keys is in it.

        `wanted` is called only when the file has a filter.
        """
        if file.rows < self.min_rows:
            return False
        hashes = self.read(file, log_name)
        return hashes is not None and not wanted().any_in(hashes)

    def keep(self, file: ContentFile, log_name: str, hashes: Sequence[Longs]) -> None:
        """Writes the filter of a file without keyless rows, from the hashes of all its keys.

        When writing fails the file has no filter: a pass does not depend on it.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if file.rows < self.min_rows or not self.makes:
            return
        ordered = np.sort(np.concatenate(hashes) >> np.uint64(64 - BITS))
        # what np.unique gives, which takes fourteen times as long
        last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        sorted_once = ordered[last].astype(np.int64)
        identity = self._identity(file, log_name)
        named = {IDENTITY: identity, DIGEST: _digest(identity, sorted_once)}
        table = pa.table({"hash": sorted_once}).replace_schema_metadata(named)
        try:
            with self.io.new_output(self.path(file)).create(overwrite=True) as out:
                pq.write_table(
                    table, out, use_dictionary=False, column_encoding={"hash": "DELTA_BINARY_PACKED"},
                    compression="none", write_statistics=False, write_page_checksum=True,
                )  # fmt: skip
        except Exception as error:  # whatever it is, the pass can do without
            log.warning("no key filter of a file of %s was kept: %s", self.location, type(error).__name__)

    def path(self, file: ContentFile) -> str:
        """Returns where a data file's filter is."""
        return f"{self.location.rstrip('/')}/{FOLDER}/{filter_name(file.path)}"

    def _identity(self, file: ContentFile, log_name: str) -> bytes:
        return f"{VERSION} {self.identity} {file.rows} {file.bytes} {log_name}".encode()

    def read(self, file: ContentFile, log_name: str) -> Longs | None:
        """Returns the first bits of the hashes of a file's keys, in rising order; None when it has no sound filter."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        identity = self._identity(file, log_name)
        try:
            with self.io.new_input(self.path(file)).open() as stream:
                # all bytes are wanted, and each further request of a distant storage takes its time
                whole = pa.BufferReader(stream.read())
            stored = pq.read_table(whole, use_threads=False, page_checksum_verification=True)
            named = stored.schema.metadata or {}
            if named.get(IDENTITY) != identity:
                return None
            hashes = np.asarray(stored["hash"].fill_null(0).to_numpy(), np.int64)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever it is, the file can be read instead
            log.warning("a key filter of %s cannot be read and is made again: %s", self.location, type(error).__name__)
            return None
        if named.get(DIGEST) != _digest(identity, hashes):
            log.warning("a key filter of %s is damaged and is made again", self.location)
            return None
        return hashes.astype(np.uint64)


def _digest(identity: bytes, hashes: NDArray[np.int64]) -> bytes:
    """Returns a digest of a filter's identity and hashes.

    The checksums of pages do not suffice: they leave out how pages make a column.
    """
    content = np.ascontiguousarray(hashes, "<i8").tobytes()
    return hashlib.blake2b(content, key=hashlib.blake2b(identity).digest(), digest_size=16).hexdigest().encode()
