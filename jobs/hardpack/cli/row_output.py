"""Rows written to standard output: as lines for people, as JSON lines, or as Arrow and Parquet for programs."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from hardpack.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = r"\N"
"""What stands for no value in a line, as in PostgreSQL's COPY."""
ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}


class Output(StrEnum):
    """How rows are written."""

    LINES = "lines"
    JSON = "json"
    ARROW = "arrow"
    PARQUET = "parquet"


def write_rows(rows: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int | None, output: Output) -> None:
    """Writes rows to standard output; a program that reads it may close it when it has enough.

    Args:
        rows: the rows.
        schema: the schema of the rows.
        limit: most rows, None for all.
        output: how they are written.
    """
    some = _begun(rows if limit is None else _first(rows, limit))
    try:
        if output in (Output.ARROW, Output.PARQUET):
            _write_binary(some, schema, output)
        else:
            _write_text(some, schema, output)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, which would fail again
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_text(rows: Iterable[pa.RecordBatch], schema: pa.Schema, output: Output) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    if output == Output.LINES:
        sys.stdout.write("\t".join(map(_escaped, schema.names)) + "\n")
    written = _as_json if output == Output.JSON else _as_line
    for batch in rows:
        try:
            as_dicts = batch.to_pylist()
        except UnicodeDecodeError:
            raise BadInput(
                "a row has text that is no UTF-8, which cannot be written as text; take --format arrow or parquet."
            ) from None
        except (OverflowError, ValueError):
            raise BadInput(
                "a row has a time outside the years 1 to 9999, which cannot be written as text; "
                "take --format arrow or parquet."
            ) from None
        sys.stdout.writelines(written(row) + "\n" for row in as_dicts)


def _first(rows: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in rows if limit else ():
        yield batch.slice(0, limit)
        limit -= min(limit, len(batch))
        if not limit:
            return


def _begun(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the rows after it has read the first batch, so that nothing is written when that cannot be read."""
    rest = iter(rows)
    return chain(list(islice(rest, 1)), rest)


class _Whole:
    """Standard output that drops what is written after reading the rows has failed.

    Parquet's footer would say that the rows before the failure are all.
    """

    def __init__(self) -> None:
        self.failed = self.closed = False

    def write(self, data: bytes) -> int:
        return len(data) if self.failed else sys.stdout.buffer.write(data)

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def close(self) -> None:
        self.closed = True


def _write_binary(rows: Iterable[pa.RecordBatch], schema: pa.Schema, output: Output) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = _Whole()
    with pq.ParquetWriter(out, schema) if output == Output.PARQUET else pa.ipc.new_stream(out, schema) as writer:
        try:
            for batch in rows:
                writer.write_batch(batch)
        except BaseException:
            out.failed = True
            raise


def _as_json(row: dict[str, Any]) -> str:
    return json.dumps(_plain(row), ensure_ascii=False)


def _as_line(row: dict[str, Any]) -> str:
    return "\t".join(MISSING if value is None else _escaped(_text(value)) for value in row.values())


def _escaped(text: str) -> str:
    """Returns a text with control characters, and bytes that are no UTF-8, escaped as PostgreSQL's COPY reads them."""
    return "".join(ESCAPES.get(c) or (_bytes_of(c) if unicodedata.category(c) in ("Cc", "Cs") else c) for c in text)


def _bytes_of(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return json.dumps(_plain(value), ensure_ascii=False) if isinstance(value, dict | list) else str(_plain(value))


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it: bytes in base64, times in ISO 8601, any other type that JSON lacks as text."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
