"""Reading ahead: while rows are worked on, the storage's answer with the next ones is already on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar, cast

from pyiceberg.io import FileIO, InputFile

if TYPE_CHECKING:
    from pyiceberg.io import InputStream, OutputFile
    from pyiceberg.manifest import ManifestFile

File = TypeVar("File")
Reading = TypeVar("Reading")
Batch = TypeVar("Batch")

AHEAD_BYTES = 16 * 1024 * 1024
"""Bytes of files whose reading is begun at once; of larger files only the next one is begun."""
AHEAD_FILES = 8
"""Most files whose reading is begun at once: so many answers of a storage are waited for side by side."""


def one_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Returns the same batches; a thread reads the next one while the caller works on one. Reading begins at once.

    Args:
        batches: none of them is None.
    """
    reading = _one_ahead(batches)
    # takes the leading None, so that the first batch is on its way before anybody asks for it
    next(reading)
    return cast("Iterator[Batch]", reading)


def _one_ahead(batches: Iterator[Batch]) -> Iterator[Batch | None]:
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, batches, None)
        yield None
        while (batch := following.result()) is not None:
            following = reader.submit(next, batches, None)
            yield batch


def files_ahead(
    files: Iterable[File], begin: Callable[[File], Reading], size: Callable[[File], int]
) -> Iterator[tuple[File, Reading]]:
    """Yields each file with what reads it, once the reading of files behind it was begun too.

    Args:
        files: in the order in which they are wanted.
        begin: begins to read a file, and does not wait for it.
        size: how many bytes a file has, or takes while it is read.
    """
    begun = deque[tuple[File, Reading]]()
    held = 0
    try:
        for file in files:
            begun.append((file, begin(file)))
            held += size(file)
            # behind the one that is worked on there is always another
            while len(begun) > 1 and (held > AHEAD_BYTES or len(begun) > AHEAD_FILES):
                held -= size(begun[0][0])
                yield begun.popleft()
        while begun:
            yield begun.popleft()
    finally:
        # drops the readings that nobody wants any more, and with them the threads that read
        begun.clear()


def contents_ahead(io: FileIO, files: Iterable[tuple[str, int]]) -> Iterator[bytes]:
    """Yields all bytes of each file in order; files behind it are read meanwhile.

    Args:
        io: reads them.
        files: location and size of each, in bytes.
    """

    def read(location: str) -> bytes:
        with io.new_input(location).open() as stream:
            return stream.read()

    with ThreadPoolExecutor(AHEAD_FILES) as pool:
        try:
            for _, reading in files_ahead(files, lambda file: pool.submit(read, file[0]), lambda file: file[1]):
                yield reading.result()
        except BaseException:
            # nobody wants the files any more whose reading was begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class FetchedFile(InputFile):
    """A file of pyiceberg's whose bytes were read already."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        """Returns True, as the bytes are there."""
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """Returns a stream of its bytes."""
        return cast("InputStream", BytesIO(self._content))


class FetchedIO(FileIO):
    """A FileIO that gives one file whose bytes were read already, whichever location it is asked for."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content

    def new_input(self, location: str) -> InputFile:
        """Returns the file, for any location."""
        return FetchedFile(location, self._content)

    def new_output(self, location: str) -> OutputFile:
        """Refuses to write."""
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuses to delete."""
        raise NotImplementedError(location)


def opened_ahead(io: FileIO, manifests: Iterable[ManifestFile]) -> Iterator[FileIO]:
    """Yields for each manifest a FileIO that has its bytes; the manifests behind it are read meanwhile.

    Args:
        io: the table's.
        manifests: of the table.
    """
    return map(FetchedIO, contents_ahead(io, ((m.manifest_path, m.manifest_length) for m in manifests)))
