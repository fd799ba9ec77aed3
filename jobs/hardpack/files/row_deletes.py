"""Row-level deletes: name dead rows that stay in their data file, in deletion vectors (v3) or position deletes (v2).

A delete file made here lies on one data file, which it names, so that a later pass can replace the delete file.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyroaring import BitMap

from hardpack.errors import BadInput
from hardpack.files.damage import damaged, readable
from hardpack.files.puffin import bitmap, read_vector, read_vectors, too_far, write_vectors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyiceberg.manifest import DataFile

    from hardpack.files.content_file import ContentFile
    from hardpack.files.data_files import DataFiles

PATH, POSITION = ("file_path", 2147483546), ("pos", 2147483545)
"""Columns of a position delete file and the field ids that the spec reserves."""


def read_positions(files: DataFiles, delete: ContentFile) -> BitMap:
    """Returns the positions that a delete file of one data file names.

    Args:
        files: reads the table's files.
        delete: a delete file for which `on_one_file` holds.

    Raises:
        BadInput: the file is gone or damaged, or names positions from 2**32 on.
        Unavailable: the storage does not answer.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if delete.format == "puffin":
        return read_vector(files, delete)
    path = delete.path

    def positions() -> pa.Table:
        with files.io.new_input(path).open() as stream:
            return pq.read_table(stream, columns=[POSITION[0]], page_checksum_verification=True)

    what = f"{files.name}: position delete file {path}"
    with readable(what, lambda: files.read_through(path), positions):
        table = positions()
    if table.schema.types != [pa.int64()] or len(table) != delete.rows:
        raise damaged(what, f"{len(table)} positions, expected {delete.rows}")
    return _below_2_32(what, table[POSITION[0]].to_numpy())


def _below_2_32(what: str, positions: np.ndarray) -> BitMap:
    if len(positions) and not 0 <= positions.min() <= positions.max() < 2**32:
        raise too_far(what)
    return bitmap(positions)


def read_positions_by_file(files: DataFiles, delete: DataFile) -> dict[str, BitMap]:
    """Returns by data file path the positions that a delete file names; it may lie on several data files.

    Args:
        files: reads the table's files.
        delete: the delete file, as its manifest has it.

    Raises:
        BadInput: the delete file is gone, damaged or of a format that is not read here.
        Unavailable: the storage does not answer.
    """
    import numpy as np
    import pyarrow.parquet as pq

    what = f"{files.name}: delete file {delete.file_path}"
    kind = delete.file_format.value.lower()
    if kind == "puffin":
        return read_vectors(files, delete.file_path)
    if kind != "parquet":
        raise BadInput(f"{what} is {kind}, expected parquet or puffin; have its deletes applied (rewrite_data_files).")

    def positions() -> dict[str, BitMap]:
        with files.io.new_input(delete.file_path).open() as stream:
            named = pq.read_table(stream, columns=[PATH[0], POSITION[0]], page_checksum_verification=True)
        if len(named) != delete.record_count:
            raise damaged(what, f"{len(named)} positions, expected {delete.record_count}")
        paths = named[PATH[0]].dictionary_encode().combine_chunks()
        numbers, rows = paths.indices.to_numpy(), named[POSITION[0]].to_numpy()
        order = np.argsort(numbers, kind="stable")
        own = np.split(rows[order], np.flatnonzero(np.diff(numbers[order])) + 1)
        return {path: _below_2_32(what, some) for path, some in zip(paths.dictionary.to_pylist(), own, strict=True)}

    with readable(what, lambda: files.read_through(delete.file_path), positions):
        return positions() if delete.record_count else {}


def write_positions(files: DataFiles, dead: Mapping[str, BitMap], data: Mapping[str, ContentFile]) -> list[ContentFile]:
    """Writes delete files that name dead rows of data files: deletion vectors on format v3, else position deletes.

    No snapshot knows of the new files.

    Args:
        files: writes the table's files.
        dead: positions by data file path, below 2**32.
        data: the data files by path.

    Returns:
        The delete files, one for each data file.
    """
    if files.format_version >= 3:
        return write_vectors(files, dead, data)
    done: list[ContentFile] = []
    try:
        for path, positions in dead.items():
            done.append(_delete_file(files, data[path], positions))
    except BaseException:
        files.discard(file.path for file in done)
        raise
    return done


def _delete_file(files: DataFiles, file: ContentFile, positions: BitMap) -> ContentFile:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = (pa.string(), pa.int64())
    schema = pa.schema(
        [
            pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})
            for (name, number), kind in zip((PATH, POSITION), types, strict=True)
        ]
    )
    paths = pa.repeat(pa.scalar(file.path), len(positions))
    rows = pa.table([paths, np.asarray(positions.to_array(), np.int64)], schema=schema)
    location = files.new_location(f"hardpack-{uuid.uuid4()}-deletes.parquet")
    with files.created(location) as stream:
        pq.write_table(rows, stream, compression="zstd", write_page_checksum=True)
    return file.delete_file(location, len(files.io.new_input(location)), len(positions))
