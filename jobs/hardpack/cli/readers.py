"""The verbs of named readers, which tombstones wait for with `horizon.readers=wait`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpack.cli import console
from hardpack.cli.console import out
from hardpack.cli.options import AsJson, Now, Partitions, TableName, show
from hardpack.cli.render import readers_table
from hardpack.errors import BadInput, plain
from hardpack.operations.readers import given_offset, group_offsets
from hardpack.operations.stream_checkpoint import checkpoint_positions

app = typer.Typer(
    no_args_is_help=True, help="Who has to see the deletes: with horizon.readers=wait no tombstone goes before them."
)
ReaderName = Annotated[str, typer.Argument(metavar="NAME", help="the reader's name, yours to choose")]


@app.command("set")
def set_position(
    table: TableName,
    name: ReaderName,
    offset: Annotated[int | None, typer.Option(help="at which it goes on: it has read all before")] = None,
    partition: Partitions = None,
    group: Annotated[
        str | None, typer.Option(metavar="HOST:PORT/GROUP/TOPIC", help="take what a consumer group has committed")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="take what a Spark stream of the table has read")
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(help="a file of librdkafka's properties, for a broker that asks for credentials")
    ] = None,
    now: Now = None,
) -> None:
    """Record how far a reader has come, by an offset, a consumer group or a Spark stream's checkpoint.

    Tombstones wait for it in the logs that have an offset of it. Run this as often as the reader moves.
    """
    if sum(given is not None for given in (offset, group, checkpoint)) != 1:
        raise BadInput(
            "give one of --offset, --group and --checkpoint, as in `hardpack reader set db.t billing -p 0 --offset 9`."
        )
    if partition is not None and offset is None:
        raise BadInput("-p goes with --offset; a group and a checkpoint tell of all logs.")
    if command_config is not None and group is None:
        raise BadInput("--command-config goes with --group; no other source asks a broker.")
    hp = console.connect()
    session = hp.session(table)
    if group is not None:
        positions = group_offsets(session, group, command_config)
    elif checkpoint is not None:
        positions = checkpoint_positions(session, checkpoint)
    else:
        positions = given_offset(session, partition, offset or 0)
    back = hp.set_reader(session.table, name, positions, now)
    out.print(plain(f"{table}: reader {name} goes on at {positions}"))
    for log in back:
        out.print(plain(f"partition {log}: it went back, so deletes that it has not seen may be gone"), style="yellow")


@app.command()
def follow(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="only the readers of this table")] = None,
    now: Now = None,
) -> None:
    """Ask every reader that the policy file names in this catalog how far it is, and record that.

    A run of a policy does it by itself, before it looks for work. Who cannot be asked holds up no other.
    """
    hp = console.connect()
    policies = hp.policies.policies if hp.policies else ()
    asked = [policy for policy in policies if table is None or policy.names(table)]
    wrong = [policy.problem for policy in asked if policy.problem]
    sources = [source for policy in policies for source in policy.readers if table in (None, source.table)]
    if not sources and not wrong:
        of = f" of {table}" if table else ""
        raise BadInput(f"no policy names a reader{of}; give one under `readers` in the policy file.")
    code = 0
    for one in hp.follow_readers(sources, now):
        out.print(plain(one.said), style="red" if one.exit_code else None)
        code = max(code, one.exit_code)
    if wrong:
        # the readers of policies without a problem have been asked by now
        raise BadInput("; ".join(wrong))
    if code:
        raise typer.Exit(code)


@app.command("list")
def show_all(table: TableName, now: Now = None, as_json: AsJson = False) -> None:
    """How far each reader is, and whether tombstones past their horizon wait for it. Starts no JVM."""
    show(console.connect().readers(table, now), as_json, readers_table)


@app.command()
def remove(table: TableName, name: ReaderName) -> None:
    """Forget a reader, so that no tombstone waits for it."""
    console.connect().remove_reader(table, name)
    out.print(plain(f"{table}: no tombstone waits for reader {name} any more"))
