"""Pages of a Parquet file by its page index: where each page lies, its bounds, and the values of a few pages alone.

Parquet's column index and offset index are to a data file what Kafka's offset index and time index are to a segment:
sparse, and enough to read one page where a reader would take the whole column. Arrow cannot read a single page, so the
wanted pages are given to it as a Parquet file of their own. See https://parquet.apache.org/docs/file-format/pageindex/.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardpack.files.compact_protocol import BINARY, I32, I64, LIST, STRUCT, Malformed, Reader, Struct, written

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
TAIL = 8
"""Bytes of a footer's length and the magic word at a file's end."""
GUESS = 64 * 1024
"""Bytes read from a file's end at first: most footers are in them."""
INTEGERS = {1: 4, 2: 8}
"""Bytes of a value by Parquet's physical type, INT32 and INT64: the types whose bounds are understood."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: neighbouring rows of one column in one row group. Rows are counted from the row group's first."""

    first_row: int
    end_row: int
    """The row after the page's last."""
    start: int
    """Where the page begins in the file, bytes."""
    size: int
    """Bytes that the page takes in the file."""
    low: int | None
    """The page's least value, None where the index does not tell it or it is no whole number."""
    high: int | None


class CountedFile:
    """A data file that is read in pieces, and counts in `given` the bytes that were read.

    Args:
        stream: the open file, which can seek.
        size: the file's length, bytes.
    """

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self.size, self.given = stream, size, 0

    def read(self, start: int, length: int) -> bytes:
        """Returns `length` bytes of the file from the byte `start` on.

        Raises:
            OSError: the file ends before.
        """
        self._stream.seek(start)
        data = bytes(self._stream.read(length))
        if len(data) < length:
            raise OSError(f"it ends {length - len(data)} bytes early")
        self.given += length
        return data


class Footer:
    """A Parquet file's footer: as Arrow has it, and what Arrow does not hand out."""

    def __init__(self, file: CountedFile) -> None:
        """Read the footer.

        Args:
            file: the data file.

        Raises:
            OSError: the file is no Parquet file.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        tail = file.read(max(0, file.size - GUESS), min(GUESS, file.size))
        length = int.from_bytes(tail[-TAIL:-4], "little") + TAIL
        if tail[-4:] != MAGIC or not TAIL < length <= file.size - len(MAGIC):
            raise OSError("it does not end as a Parquet file")
        if length > len(tail):
            tail = file.read(file.size - length, length)
        self._raw: bytes = tail[-length:]
        self.arrow: pq.FileMetaData = pq.read_metadata(pa.BufferReader(MAGIC + self._raw))
        self._wanted: frozenset[int] = frozenset()
        self._chunks: list[dict[int, Struct]] = []
        self._paths: dict[int, list[Struct]] = {}

    def want(self, columns: Iterable[int]) -> None:
        """Says of which Parquet columns pages will be asked for: nothing is kept of other columns."""
        self._wanted = frozenset(columns)

    def rows(self, group: int) -> int:
        """Returns how many rows a row group has."""
        return int(self.arrow.row_group(group).num_rows)

    def chunk(self, group: int, column: int) -> Struct:
        """Returns the footer's entry of a column chunk, whose column is one of the wanted.

        Raises:
            OSError: the footer is damaged.
        """
        if not self._chunks:
            with _well_formed():
                self._read(Reader(self._raw))
            self._raw = b""
        return self._chunks[group][column]

    def _read(self, reader: Reader) -> None:
        """Keeps the wanted columns alone, as a footer may list a hundred thousand column chunks with statistics."""
        for number, kind in reader.fields():
            if number == 2:
                paths = _paths(reader.value(kind))
                self._paths = {at: path for at, path in enumerate(paths) if at in self._wanted}
            elif number == 4:
                groups, _ = reader.elements()
                self._chunks = [self._of_group(reader) for _ in range(groups)]
            else:
                reader.skip_field(kind)

    def _of_group(self, reader: Reader) -> dict[int, Struct]:
        chunks = dict[int, Struct]()
        for number, kind in reader.fields():
            if number != 1:
                reader.skip_field(kind)
                continue
            columns, of = reader.elements()
            for at in range(columns):
                if at in self._wanted:
                    chunks[at] = reader.struct()
                else:
                    reader.skip(of)
        return chunks

    def path(self, column: int) -> list[Struct]:
        """Returns the schema elements from below the root to a wanted column; `chunk` has to be called before."""
        return self._paths[column]


@contextmanager
def _well_formed() -> Iterator[None]:
    """Turns an error of parsing a footer or page index into `Malformed`, an error of the file."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, RecursionError, struct.error) as error:
        raise Malformed("its footer or page index is not as Parquet has it") from error


def _paths(elements: list[Struct]) -> list[list[Struct]]:
    leaves: list[list[Struct]] = []
    at = 1

    def walk(around: list[Struct], children: int) -> None:
        nonlocal at
        for _ in range(children):
            path = [*around, elements[at]]
            at += 1
            if inner := path[-1].get(5):
                walk(path, inner)
            else:
                leaves.append(path)

    walk([], elements[0].get(5, 0))
    return leaves


class ColumnPages:
    """The pages of one column in one row group. Where the file has no page index, one page stands for all.

    Args:
        file: the data file, of which the page index is read.
        footer: the file's.
        group: number of the row group.
        column: number of the Parquet column; no list or map is around it.

    Raises:
        OSError: the file is damaged.
    """

    def __init__(self, file: CountedFile, footer: Footer, group: int, column: int) -> None:
        with _well_formed():
            chunk, rows = footer.chunk(group, column), footer.rows(group)
            self._path = footer.path(column)
            self._meta = meta = chunk[3]
            begin, dictionary = meta[9], meta.get(11) or 0
            self._begin = min(begin, dictionary) if dictionary else begin
            self.pages = [Page(0, rows, self._begin, meta[7], None, None)]
            if 4 in chunk:
                places = Reader(file.read(chunk[4], chunk[5])).struct()[1]
                ends = [*(place[3] for place in places[1:]), rows]
                bounds = _bounds(file, chunk, len(places))
                self.pages = [
                    Page(place[3], end, place[1], place[2], *bound)
                    for place, end, bound in zip(places, ends, bounds, strict=True)
                ]
                self._check(self._begin + meta[7])

    def _check(self, end: int) -> None:
        """Checks that the pages follow each other from the first row on, inside the column chunk."""
        row, at = 0, self._begin
        for page in self.pages:
            if page.first_row != row or page.end_row <= row or page.start < at or page.size <= 0:
                raise Malformed("its page index does not fit its footer")
            row, at = page.end_row, page.start + page.size
        if at > end:
            raise Malformed("its page index does not fit its footer")

    def covering(self, first: int, end: int) -> list[Page]:
        """Returns the pages that hold the rows of a range.

        Args:
            first: the first of the rows.
            end: the row after the last, above the first.
        """
        begins = [page.first_row for page in self.pages]
        return self.pages[bisect_right(begins, first) - 1 : bisect_left(begins, end)]

    def values(self, file: CountedFile, first: int, end: int) -> pa.Array:
        """Returns the column's values in a range of rows, in Parquet's physical type.

        Args:
            file: the data file.
            first: the first of the rows.
            end: the row after the last, above the first.

        Raises:
            OSError: the file is damaged.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        some = self.covering(first, end)
        start, stop = some[0].start, some[-1].start + some[-1].size
        body, before = file.read(start, stop - start), b""
        if start > self._begin and self.pages[0].start > self._begin:
            before = file.read(self._begin, self.pages[0].start - self._begin)
        stream = pa.BufferReader(self._as_file(before, body, some[-1].end_row - some[0].first_row))
        # `DataFiles` reads whole files with the same two options
        options = {"page_checksum_verification": True, "coerce_int96_timestamp_unit": "us"}
        with pq.ParquetFile(stream, **options) as parquet:
            column = parquet.read(use_threads=False).column(0).combine_chunks()
        for _ in self._path[1:]:
            column = column.flatten()[0]
        if len(column) != some[-1].end_row - some[0].first_row:
            raise Malformed("its pages have other rows than its page index says")
        return column.slice(first - some[0].first_row, end - first)

    def _as_file(self, dictionary: bytes, pages: bytes, rows: int) -> bytes:
        """Returns the bytes of a Parquet file that holds these pages of this column and nothing else."""
        leaf = self._path[-1]
        names = [element[4] for element in self._path]
        root = written((4, BINARY, b"root"), (5, I32, 1))
        around = [written((3, I32, e.get(3, 0)), (4, BINARY, e[4]), (5, I32, 1)) for e in self._path[:-1]]
        column = written((1, I32, leaf[1]), *_length(leaf), (3, I32, leaf.get(3, 0)), (4, BINARY, leaf[4]))
        size = len(dictionary) + len(pages)
        place = ((9, I64, len(MAGIC) + len(dictionary)), *(((11, I64, len(MAGIC)),) if dictionary else ()))
        meta = written(
            (1, I32, leaf[1]), (2, LIST, (I32, self._meta[2])), (3, LIST, (BINARY, names)), (4, I32, self._meta[4]),
            (5, I64, rows), (6, I64, self._meta[6]), (7, I64, size), *place,
        )  # fmt: skip
        chunk = written((2, I64, len(MAGIC)), (3, STRUCT, meta))
        group = written((1, LIST, (STRUCT, [chunk])), (2, I64, self._meta[6]), (3, I64, rows))
        footer = written(
            (1, I32, 1), (2, LIST, (STRUCT, [root, *around, column])), (3, I64, rows), (4, LIST, (STRUCT, [group]))
        )
        return MAGIC + dictionary + pages + footer + len(footer).to_bytes(4, "little") + MAGIC


def _length(leaf: Struct) -> tuple[tuple[int, int, int], ...]:
    return ((2, I32, leaf[2]),) if leaf.get(2) else ()


def _bounds(file: CountedFile, chunk: Struct, count: int) -> list[tuple[int | None, int | None]]:
    width = INTEGERS.get(chunk[3][1])
    if 6 not in chunk or width is None:
        return [(None, None)] * count
    index = Reader(file.read(chunk[6], chunk[7])).struct()

    def number(empty: bool, bound: bytes) -> int | None:
        return None if empty or len(bound) != width else int.from_bytes(bound, "little", signed=True)

    lows, highs = (list(map(number, index[1], index[field])) for field in (2, 3))
    return list(zip(lows, highs, strict=True))
