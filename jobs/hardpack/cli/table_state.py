"""The verbs that change what a table says of itself: adopt, pause, resume."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardpack.cli import console
from hardpack.cli.arguments import settings_of
from hardpack.cli.console import err, out
from hardpack.cli.options import AsJson, Partitions, TableName, print_json
from hardpack.cli.render import settings_table, split_table, writer_table
from hardpack.errors import BadInput, plain
from hardpack.operations.like_topic import topic_settings
from hardpack.operations.writers import RECOGNISERS
from hardpack.rules.model import LogState
from hardpack.rules.settings import Settings, default_text, is_locked

if TYPE_CHECKING:
    from hardpack.api import Hardpack

app = typer.Typer()
LikeTopic = Annotated[
    str | None, typer.Option(metavar="HOST:PORT/TOPIC", help="take what a topic sets at its broker; --set wins")
]
CommandConfig = Annotated[
    Path | None, typer.Option(help="a file of librdkafka's properties, for a broker that asks for credentials")
]


def _settings_help() -> str:
    lines = [
        f"- {field.alias} = {default_text(field.default)}: {field.description}"
        for field in Settings.model_fields.values()
    ]
    return (
        "Recognise the sink that wrote a table, map its columns, check them and set the table's properties; nothing "
        "changes when a check fails."
        "\n\nSettings, with their defaults (table properties under `hardpack.`):\n\n" + "\n\n".join(lines)
    )


@app.command("adopt", help=_settings_help())
def adopt(
    table: TableName,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, as in delete.retention.ms=3600000; empty unsets")
    ] = None,
    writer: Annotated[
        str | None, typer.Option("--from", help=f"the sink that wrote the table: {', '.join(RECOGNISERS)}")
    ] = None,
    like_topic: LikeTopic = None,
    command_config: CommandConfig = None,
    dry_run: Annotated[bool, typer.Option(help="only check")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a table and set its properties."""
    hp = console.connect()
    pairs, taken = settings_of(settings), _of_topic(hp, table, like_topic, command_config)
    pairs = {**taken, **pairs}
    recognised = hp.writer_of(table, pairs, writer)
    result = hp.adopt(table, pairs, dry_run, writer)
    if as_json:
        print_json(result)
        return
    if recognised:
        out.print(writer_table(table, recognised))
    if like_topic:
        taken_settings = (
            ", ".join(f"{name}={value}" for name, value in taken.items()) or "nothing, all is Kafka's default"
        )
        out.print(f"{like_topic} sets {taken_settings}")
    told = recognised.settings if recognised else ()
    out.print(settings_table(f"{table} {'would be' if dry_run else 'is'} {_kind(result, 'a')}", result, told))
    if not dry_run and (waiting := hp.split(table, dry_run=True)).files:
        out.print(split_table(waiting, dry_run=True))


@app.command()
def create(
    table: TableName,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, as in delete.retention.ms=3600000")
    ] = None,
    like_topic: LikeTopic = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Make an empty table for a topic, adopted: partition, offset, timestamp, key, value and headers.

    It is partitioned by the log and ordered by offset. The namespace has to be there.
    """
    hp = console.connect()
    pairs, taken = settings_of(settings), _of_topic(hp, table, like_topic, command_config)
    result = hp.create(table, {**taken, **pairs})
    if as_json:
        print_json(result)
        return
    out.print(settings_table(f"{table} is {_kind(result, 'an empty')}", result))


def _kind(settings: Settings, article: str) -> str:
    """Returns what a table is by its cleanup.policy."""
    return f"{article} {'compacted ' * settings.compacts}topic{' under retention' * settings.deletes}"


def _of_topic(hp: Hardpack, table: str, like_topic: str | None, command_config: Path | None) -> dict[str, str]:
    """Returns the settings of a broker's topic, without those that the table's policy locks, which the policy sets."""
    if command_config is not None and not like_topic:
        raise BadInput("--command-config tells how to reach a broker, and none is asked; name a topic by --like-topic.")
    found = topic_settings(like_topic, command_config) if like_topic else {}
    policy = hp.policies.settings(table) if hp.policies else {}
    if locked := sorted(name for name in found if is_locked(name, policy)):
        err.print(
            plain(f"hardpack: {', '.join(locked)} of {like_topic} is left out, as the table's policy locks it."),
            soft_wrap=True,
        )
    return {name: value for name, value in found.items() if name not in locked}


@app.command()
def pause(table: TableName, partition: Partitions = None, as_json: AsJson = False) -> None:
    """Keep logs from being cleaned until they are resumed as often as they were paused."""
    states = console.connect().pause(table, partition)
    if as_json:
        _print_states(table, states)
    else:
        out.print(plain(f"{table}: paused {', '.join(states) or 'nothing, as it has no log yet'}"), soft_wrap=True)


@app.command()
def resume(
    table: TableName,
    partition: Partitions = None,
    trust_late_rows: Annotated[
        bool, typer.Option(help="clean rows that arrived below removed tombstones, or seem to be of a topic made anew")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Undo one pause, and let logs be cleaned again that a failure had made uncleanable."""
    states = console.connect().resume(table, partition, trust_late_rows)
    if as_json:
        _print_states(table, states)
        return
    free = [p for p, state in states.items() if not state.paused]
    none = "none, some pauses are left" if states else "none, as it has no log yet"
    out.print(plain(f"{table}: cleaned again from now on: {', '.join(free) or none}"), soft_wrap=True)


def _print_states(table: str, states: Mapping[str, LogState]) -> None:
    logs = {name: {"paused": state.paused, "uncleanable": state.uncleanable or ""} for name, state in states.items()}
    sys.stdout.write(json.dumps({"table": table, "logs": logs}) + "\n")
