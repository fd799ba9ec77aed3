"""The rows of one log in a data file, between two offsets and not deleted, as runs in order of offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.types import PrimitiveType, UUIDType

from hardpack.errors import BadInput
from hardpack.files.data_files import leaf
from hardpack.files.key_hash import longs
from hardpack.reading.log_files import LogFile
from hardpack.reading.ordered import Rows, SortedRun, in_order, is_ascending
from hardpack.reading.sparse_index import SparseIndex, fulfils
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.schema import Schema

Where = Mapping[LogColumn, pa.Scalar]
"""A filter on rows: the value that they have to have in each of some columns; a null scalar stands for no value."""


def may_hold(file: LogFile, where: Where) -> bool:
    """Returns whether a file may have rows that match a filter, by the bounds in its manifest.

    Args:
        file: a file of the table.
        where: the filter.
    """
    lows, highs = file.listed.lower_bounds or {}, file.listed.upper_bounds or {}
    for column, wanted in where.items():
        value, low, high = wanted.as_py(), lows.get(column.field_id), highs.get(column.field_id)
        kind = cast(PrimitiveType, column.field_type)
        # bounds of dates and times are numbers, which Python's values are not; Iceberg's Java merges the bounds of row
        # groups by UUIDs' signed halves, so they prove nothing
        if low is None or high is None or isinstance(kind, UUIDType) or not isinstance(value, str | bytes | int):
            continue
        bounds: tuple[Any, Any] = low, high
        if isinstance(value, str):
            # a bound of a text may have been cut inside a character, so bytes are compared, which have the same order
            value = value.encode()
        elif isinstance(value, int):
            bounds = from_bytes(kind, low), from_bytes(kind, high)
        # a bound that was cut is still a bound
        if not bounds[0] <= value <= bounds[1]:
            return False
    return True


def runs(
    index: SparseIndex, file: LogFile, projected: Schema, offsets: tuple[int, int], where: Where
) -> Iterator[SortedRun]:
    """Yields a run for each row group that may hold rows that match a filter.

    Before a run is opened, nothing but the footer and Bloom filters is read.

    Args:
        index: of the table.
        file: one that holds rows of the log.
        projected: the columns to read.
        offsets: the least offset, and the one after the last.
        where: the filter.

    Raises:
        BadInput: the file is gone or damaged; a run raises the same.
        Unavailable: the storage does not answer.
    """
    (first, end), begins = offsets, dict[int, int]()
    for group in index.row_groups(file):
        low, high = index.bounds(file, group, index.columns.offset) or (file.first_offset, file.last_offset)
        if low < end and high >= first and _may_hold(index, file, group, where):
            begins[group] = max(low, first)
    # Bloom filters are read only of row groups that the bounds, which are at hand, do not rule out
    wanted = {column: scalar.as_py() for column, scalar in where.items()}
    for group in index.not_ruled_out(file, list(begins), wanted) if wanted else begins:
        yield SortedRun(begins[group], partial(_rows, index, file, group, projected, offsets, where))


def _may_hold(index: SparseIndex, file: LogFile, group: int, where: Where) -> bool:
    for column, wanted in where.items():
        value, bounds = wanted.as_py(), index.bounds(file, group, column)
        # a file may have times without a zone where the table has them with one, so times are not compared
        comparable = bounds and type(bounds[0]) is type(value) and not isinstance(value, datetime)
        if comparable and bounds and not bounds[0] <= value <= bounds[1]:
            return False
    return True


def _rows(
    index: SparseIndex, file: LogFile, group: int, projected: Schema, offsets: tuple[int, int], where: Where
) -> Iterator[Rows]:
    begin, end = index.positions(file, group)
    gone = index.deleted(file, (begin, end))
    if index.is_rising(file) and not where:
        yield from _in_file_order(index, file, group, projected, offsets, gone)
        return
    own_offsets, keep, at = np.empty(end - begin, np.int64), np.ones(end - begin, bool), 0
    asked = index.files.schema.select(index.columns.offset.name, *(column.name for column in where))
    for batch in index.rows(file, asked, [group]):
        own = slice(at, at := at + len(batch))
        # a row of another log in the same file may have no offset
        own_offsets[own] = longs(leaf(batch, index.columns.offset).fill_null(-1))
        for column, wanted in where.items():
            keep[own] &= fulfils(leaf(batch, column), wanted)
    keep &= (own_offsets >= offsets[0]) & (own_offsets < offsets[1])
    keep[gone] = False
    if keep.any():
        rows = _kept(index, file, group, projected, own_offsets, keep)
        yield from rows if is_ascending(own_offsets[keep]) else in_order(rows)


def _in_file_order(
    index: SparseIndex, file: LogFile, group: int, projected: Schema, span: tuple[int, int], gone: NDArray[np.int64]
) -> Iterator[Rows]:
    """Yields rows in the order of their file, which says of itself that its rows are by offset.

    Raises:
        BadInput: they are not.
    """
    at, last = 0, -1
    for batch in index.rows(file, projected, [group]):
        offsets = longs(leaf(batch, index.columns.offset))
        if not len(offsets):
            continue
        if offsets[0] < last or not is_ascending(offsets):
            raise BadInput(
                f"{index.files.name}: data file {file.content.path} says that its rows are by offset, and they are "
                "not; have Iceberg write it anew (rewrite_data_files)."
            )
        last = int(offsets[-1])
        first, end = np.searchsorted(offsets, span)
        mask = np.zeros(len(offsets), bool)
        mask[first:end] = True
        mask[gone[(gone >= at) & (gone < at + len(offsets))] - at] = False
        at += len(offsets)
        if mask.all():
            yield offsets, batch
        elif mask.any():
            yield offsets[mask], batch.filter(pa.array(mask))
        if last >= span[1]:
            return


def _kept(
    index: SparseIndex,
    file: LogFile,
    group: int,
    projected: Schema,
    offsets: NDArray[np.int64],
    keep: NDArray[np.bool_],
) -> Iterator[Rows]:
    last, at = int(np.flatnonzero(keep)[-1]), 0
    for batch in index.rows(file, projected, [group]):
        own = slice(at, at := at + len(batch))
        mask = keep[own]
        if mask.all():
            yield offsets[own], batch
        elif mask.any():
            yield offsets[own][mask], batch.filter(pa.array(mask))
        if at > last:
            return
