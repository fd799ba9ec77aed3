"""Rows written to standard output: as lines for people, as JSON lines, or as Arrow and Parquet for programs."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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
    """Write rows to standard output; whoever reads it may stop when it has enough.

    Args:
        rows: the rows.
        schema: theirs.
        limit: most rows, None for all.
        output: how.
    """
    some = rows if limit is None else _first(rows, limit)
    try:
        if output in (Output.ARROW, Output.PARQUET):
            _write_binary(some, schema, output)
        else:
            written = _as_json if output == Output.JSON else _as_line
            if output == Output.LINES:
                sys.stdout.write("\t".join(map(_escaped, schema.names)) + "\n")
            for batch in some:
                sys.stdout.writelines(written(row) + "\n" for row in batch.to_pylist())
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _first(rows: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in rows if limit else ():
        yield batch.slice(0, limit)
        limit -= min(limit, len(batch))
        if not limit:
            return


def _write_binary(rows: Iterable[pa.RecordBatch], schema: pa.Schema, output: Output) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = sys.stdout.buffer
    with pq.ParquetWriter(out, schema) if output == Output.PARQUET else pa.ipc.new_stream(out, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _as_json(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, default=_plain)


def _as_line(row: dict[str, Any]) -> str:
    return "\t".join(MISSING if value is None else _escaped(_text(value)) for value in row.values())


def _escaped(text: str) -> str:
    return "".join(ESCAPES.get(c, c) if c.isprintable() or c in ESCAPES else repr(c)[1:-1] for c in text)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return _plain(value) if isinstance(value, datetime) else str(value)


def _plain(value: Any) -> str:
    """Returns what JSON has no type for as text: bytes in base64, times in ISO 8601."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
