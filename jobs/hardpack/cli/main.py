"""The command `hardpack`: the library's verbs, tables for people and JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.table import Table

from hardpack.cli.arguments import from_stdin, name_and_value, read_plan
from hardpack.cli.console import Shared, connect, err, out
from hardpack.cli.install import demo, jars
from hardpack.cli.log_output import begin_logging
from hardpack.cli.render import (
    doctor_table,
    key_table,
    maintenance_table,
    pass_table,
    plan_table,
    policies_table,
    settings_table,
    split_table,
    status_table,
    verify_table,
    writer_table,
)
from hardpack.errors import BadInput, HardpackError
from hardpack.failures import sentence
from hardpack.operations.status import LogStatus
from hardpack.operations.writers import RECOGNISERS
from hardpack.rules.settings import Settings
from hardpack.table.redaction import redacted

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka's log compaction for Apache Iceberg tables.\n\n"
    "A table is a topic once it is adopted: `hardpack adopt db.t`. Then `status` tells what is dirty, `plan` what a "
    "pass would do and why, `clean` runs phase one of it, `expire-tombstones` phase two, `verify` checks the "
    "guarantees; `explain` tells why a key's rows are still there, `doctor` whether catalog, storage and Spark work "
    "together.\n\nExit codes: 0 done or nothing to do, "
    "1 what nobody foresaw, 2 bad input, 3 a guarantee does not hold, 4 conflict, 5 a service did not answer.",
)
app.add_typer(demo, name="demo")
app.command()(jars)

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
Now = Annotated[int | None, typer.Option(help="the time to act at, ms since the epoch [default: the clock]")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what the pass would do, and change nothing")]
Partitions = Annotated[list[str] | None, typer.Option("--partition", "-p", help="only this log; may be repeated")]


def _tell_version(asked: bool) -> None:
    if asked:
        out.print(f"hardpack {version('hardpack')}", highlight=False)
        raise typer.Exit


@app.callback()
def shared(
    catalog: Annotated[
        str, typer.Option(envvar="HARDPACK_CATALOG", help="catalog name in pyiceberg's configuration")
    ] = "hardpack",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="log what happens")] = False,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="say which version this is")
    ] = False,
) -> None:
    """Options of every verb."""
    Shared.catalog = catalog
    begin_logging(logging.INFO if verbose else logging.ERROR, sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)


@app.command()
def status(
    tables: Annotated[str, typer.Argument(help="a table or a glob such as 'db.*'")] = "*.*",
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """How every log stands: dirty ratio, checkpoint, tombstones waiting, due or not and why. Starts no JVM.

    A table that cannot be read does not hide the others; the exit code is then the highest of their errors.
    """
    hp = connect()
    logs: list[LogStatus] = []
    refused: list[HardpackError] = []
    for table in hp.tables(tables):
        try:
            logs += hp.status(table, now)
        except Exception as error:  # one broken table must not hide the others
            logging.getLogger("hardpack").info("the trace:", exc_info=error)
            refused.append(sentence(error))
    _show(logs, as_json, status_table)
    for refusal in refused:
        _say(refusal)
    if refused:
        raise typer.Exit(max(error.exit_code for error in refused))


@app.command()
def plan(
    table: TableName,
    partition: Partitions = None,
    now: Now = None,
    force: Annotated[bool, typer.Option(help="plan whatever is cleanable, whatever the ratio")] = False,
    as_json: AsJson = False,
) -> None:
    """What a pass would do and why; changes nothing, starts no JVM. `--json` prints what `clean --plan` takes."""
    _show(connect().plan(table, now, partition, force), as_json, plan_table)


@app.command()
def clean(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="namespace.table, or give --plan")] = None,
    plan_file: Annotated[Path | None, typer.Option("--plan", help="a plan as `plan --json` printed it")] = None,
    partition: Partitions = None,
    now: Now = None,
    force: Annotated[bool, typer.Option(help="clean whatever is cleanable, whatever the ratio")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Phase one: drop superseded rows, give new tombstones a horizon, move the checkpoint; one commit."""
    hp = connect()
    if (plan_file is None) == (table is None):
        raise BadInput("give either a table or --plan FILE, as in `hardpack clean db.t`.")
    chosen = read_plan(plan_file) if plan_file else hp.plan(table or "", now, partition, force)
    with err.status("looking" if dry_run else "cleaning"):
        report = hp.clean(chosen, dry_run)
    if report.logs or as_json:
        _show(report, as_json, partial(pass_table, dry_run=dry_run))
    else:
        out.print(
            "nothing is due:" if chosen.split else "nothing is due, so nothing was changed:", *report.notes, sep="\n"
        )
        _show(chosen, as_json, plan_table)


@app.command()
def split(table: TableName, now: Now = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Take files apart that hold rows of several logs, as some sinks write them; `clean` begins with it."""
    hp = connect()
    with err.status("splitting"):
        report = hp.split(table, now, dry_run)
    _show(report, as_json, partial(split_table, dry_run=dry_run))


@app.command("expire-tombstones")
def expire_tombstones(
    table: TableName,
    partition: Partitions = None,
    now: Now = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Phase two: remove the tombstones whose delete horizon has passed; one commit."""
    hp = connect()
    with err.status("expiring tombstones"):
        report = hp.expire_tombstones(table, now, partition, dry_run)
    _show(report, as_json, partial(pass_table, dry_run=dry_run))


@app.command()
def retention(
    table: TableName,
    partition: Partitions = None,
    now: Now = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """With `delete` in cleanup.policy: delete whole segments past retention.ms or retention.bytes; one commit."""
    hp = connect()
    with err.status("applying retention"):
        report = hp.apply_retention(table, now, partition, dry_run)
    _show(report, as_json, partial(pass_table, dry_run=dry_run))


@app.command()
def pause(table: TableName, partition: Partitions = None) -> None:
    """Keep logs from being cleaned until they are resumed as often as they were paused."""
    states = connect().pause(table, partition)
    out.print(f"{table}: paused {', '.join(states)}")


@app.command()
def resume(
    table: TableName,
    partition: Partitions = None,
    trust_late_rows: Annotated[
        bool, typer.Option(help="clean rows that arrived below removed tombstones; a deleted key may come back")
    ] = False,
) -> None:
    """Undo one pause, and let logs be cleaned again that a failure had made uncleanable."""
    states = connect().resume(table, partition, trust_late_rows)
    free = [p for p, state in states.items() if not state.paused]
    out.print(f"{table}: cleaned again from now on: {', '.join(free) or 'none, some pauses are left'}")


@app.command()
def verify(table: TableName, partition: Partitions = None, now: Now = None, as_json: AsJson = False) -> None:
    """Check the guarantees on the published table and write Data Docs; exit code 3 when one is broken."""
    hp = connect()
    with err.status("verifying"):
        report = hp.verify(table, now, partition)
    _show(report, as_json, verify_table)
    if not as_json:
        for page in report.data_docs:
            out.print(f"Data Docs: {page}", soft_wrap=True)
    if not report.passes_hold:
        raise typer.Exit(3)


@app.command()
def explain(
    table: TableName,
    key: Annotated[
        str,
        typer.Option(
            help="the key, as text, or as JSON where it is several columns or no text; - reads it from standard input, "
            "so that no list of processes shows it"
        ),
    ],
    hexadecimal: Annotated[bool, typer.Option("--hex", help="the key is given as hexadecimal digits")] = False,
    partition: Partitions = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Why the rows of a key are still there: what the next pass does to each, and when its tombstone may go.

    Of the current snapshot; older ones keep what was removed until `maintain` expires them. A key that may be personal
    data is better given by standard input: `hardpack explain db.t --key - < FILE`.
    """
    given = from_stdin() if key == "-" else key.encode(errors="surrogateescape")
    hp = connect()
    try:
        wanted = bytes.fromhex(given.decode()) if hexadecimal else given
    except ValueError:
        raise BadInput("--hex: the key has a character that is no hexadecimal digit; expected as in 6b6579.") from None
    with err.status("looking for the key"):
        report = hp.explain(table, wanted, now, partition)
    _show(report, as_json, key_table)


def _settings_help() -> str:
    lines = [f"- {field.alias} = {field.default}: {field.description}" for field in Settings.model_fields.values()]
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
    dry_run: Annotated[bool, typer.Option(help="only check")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a table and set its properties."""
    pairs, hp = dict(name_and_value(s) for s in settings or []), connect()
    found = hp.writer_of(table, pairs, writer)
    result = hp.adopt(table, pairs, dry_run, writer)
    if as_json:
        _print_json(result)
        return
    if found:
        out.print(writer_table(table, found))
    out.print(settings_table(f"{table} {'would be' if dry_run else 'is'} a compacted topic", result))
    if not dry_run and (waiting := hp.split(table, dry_run=True)).files:
        out.print(split_table(waiting, dry_run=True))


@app.command()
def maintain(
    table: TableName,
    now: Now = None,
    dry_run: Annotated[bool, typer.Option(help="only say what could go")] = False,
    as_json: AsJson = False,
) -> None:
    """Free what reclaimed bytes still take: retention, old snapshots, orphan files, manifests; by Iceberg's own means.

    Snapshots stay as long as history.expire.max-snapshot-age-ms says, and those by which a sink finds its way back.
    """
    hp = connect()
    with err.status("cleaning up"):
        report = hp.maintain(table, now, dry_run)
    _show(report, as_json, maintenance_table)


@app.command()
def doctor(
    namespace: Annotated[
        str | None, typer.Option(help="where to make the probe's table [default: a namespace of its own]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """See that catalog, storage and Spark work together: a small topic is made, cleaned, read by both, and removed."""
    with err.status("examining"):
        report = connect().doctor(namespace)
    _show(report, as_json, doctor_table)
    if not report.well:
        raise typer.Exit(report.exit_code)


@app.command()
def policies(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="only the policy of this table")] = None,
    schema: Annotated[bool, typer.Option(help="print the JSON schema of the policy file")] = False,
    as_json: AsJson = False,
) -> None:
    """The policies of the policy file: which tables each names, when they are cleaned, and by which settings."""
    from hardpack.policy import VARIABLE, Policies, load_policies, policy_file

    if schema:
        sys.stdout.write(json.dumps(Policies.model_json_schema(), indent=1) + "\n")
        return
    path = policy_file()
    if path is None:
        raise BadInput(f"there is no policy file; name one in {VARIABLE} or put hardpack.yaml into HARDPACK_HOME.")
    found = load_policies(path)
    chosen = [p for p in found.policies if table is None or p is found.of(table)]
    if not chosen:
        raise BadInput(f"{table}: no policy of {path} names this table.")
    _show(chosen, as_json, policies_table)


def _show(result: Any, as_json: bool, renderer: Callable[[Any], Table]) -> None:
    if as_json:
        _print_json(result)
        return
    out.print(renderer(result))


def _print_json(result: BaseModel | Iterable[BaseModel]) -> None:
    if isinstance(result, BaseModel):
        sys.stdout.write(result.model_dump_json(by_alias=True) + "\n")
    else:
        sys.stdout.write(json.dumps([r.model_dump(mode="json", by_alias=True) for r in result]) + "\n")


def main() -> None:
    """Run the command; whatever goes wrong is one sentence and an exit code, and with --verbose a trace too."""
    try:
        app()
    except Exception as error:
        logging.getLogger("hardpack").info("the trace:", exc_info=error)
        told = sentence(error)
        _say(told)
        sys.exit(told.exit_code)


def _say(error: HardpackError) -> None:
    err.print(redacted(f"hardpack: {error}"), style="red", markup=False, highlight=False, soft_wrap=True)
