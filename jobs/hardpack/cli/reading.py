"""The verbs that read a table as the topic: rows to standard output, and where a row is."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from hardpack.cli import console
from hardpack.cli.arguments import from_stdin, place_of
from hardpack.cli.console import out
from hardpack.cli.options import AsJson, Partitions, TableName, print_json
from hardpack.cli.render import found_table
from hardpack.cli.row_output import Output, write_rows
from hardpack.clock import time_of
from hardpack.errors import BadInput
from hardpack.reading.transactions import Isolation

app = typer.Typer()
Time = typer.Option(parser=time_of, metavar="TIME", help="ms since the epoch, or ISO as in 2026-01-31T12:00Z; UTC")


@app.command()
def seek(
    table: TableName,
    partition: Annotated[str, typer.Option("--partition", "-p", help="the log")],
    offset: Annotated[int | None, typer.Option(help="the first row at or after this offset")] = None,
    time: Annotated[int | None, Time] = None,
    as_json: AsJson = False,
) -> None:
    """Where the first row at or after an offset is, or the first of a time or later, as Kafka's `offsetsForTimes`.

    It reads bounds, page indexes and a page or two; `--json` prints null where there is no such row.
    """
    if (offset is None) == (time is None):
        raise BadInput("give either --offset or --time, as in `hardpack seek db.t -p 0 --offset 1000`.")
    reader = console.connect().reader(table, [partition])
    place = reader.seek(partition, offset) if offset is not None else reader.offset_for_time(partition, time or 0)
    if as_json:
        sys.stdout.write("null\n") if place is None else print_json(place)
    elif place is None:
        first, end = reader.beginning_offsets()[partition], reader.end_offsets()[partition]
        out.print(f"{table}: partition {partition} has no such row; it has offsets from {first} to before {end}")
    else:
        out.print(found_table(table, place))
        out.print(f"file: {place.file}", soft_wrap=True)


@app.command()
def read(
    table: TableName,
    partition: Partitions = None,
    start: Annotated[
        str, typer.Option("--from", metavar="OFFSET|TIME", help="an offset, an ISO time with dashes, or `beginning`")
    ] = "beginning",
    end: Annotated[
        str, typer.Option("--to", metavar="OFFSET|TIME", help="end before this offset or ISO time, or at the `end`")
    ] = "end",
    key: Annotated[
        str | None, typer.Option(help="only rows of this key, as `explain` takes it; - reads it from standard input")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="most rows")] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="only this column; may be repeated")
    ] = None,
    output: Annotated[Output, typer.Option("--format", "-o", help="how rows are written")] = Output.LINES,
    by_time: Annotated[bool, typer.Option(help="mix the logs by their rows' timestamps")] = False,
    isolation_level: Annotated[
        Isolation, typer.Option(help="read_uncommitted shows what was aborted or is still open")
    ] = "read_committed",
) -> None:
    """Print a table's rows in order of offset, as a consumer of the topic is given them; starts no JVM.

    Of one snapshot. `--format json` gives a line for each row, bytes in base64; `arrow` a stream and `parquet` a file
    of all columns in their types, to be sent on: `hardpack read db.t -o parquet > t.parquet`.
    """
    reader = console.connect().reader(table, partition)
    span: dict[str, Any] = place_of(start, "start", "beginning") | place_of(end, "end", "end")
    given = from_stdin() if key == "-" else None if key is None else key.encode(errors="surrogateescape")
    rows = reader.read(partition, key=given, columns=columns, by_time=by_time, isolation_level=isolation_level, **span)
    write_rows(rows, reader.schema(columns), limit, output)
