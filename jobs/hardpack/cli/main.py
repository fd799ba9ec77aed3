"""The command `hardpack`: the library's verbs, tables for people and JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from hardpack.cli import console, passes, readers, reading, table_state
from hardpack.cli.arguments import from_stdin
from hardpack.cli.console import Shared, err, out
from hardpack.cli.install import demo, jars
from hardpack.cli.log_output import begin_logging
from hardpack.cli.options import AsJson, Now, Partitions, TableName, print_json, say, show
from hardpack.cli.render import (
    description_tables,
    doctor_table,
    key_table,
    plan_table,
    policies_table,
    segments_table,
    status_table,
)
from hardpack.cli.what_if_output import what_if_table
from hardpack.errors import BadInput, HardpackError
from hardpack.failures import as_hardpack_error
from hardpack.operations.status import LogStatus
from hardpack.operations.what_if import TRIED, tried_values
from hardpack.rules.times import HOUR_MS

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka's log compaction for Apache Iceberg tables.\n\n"
    "A table is a topic once it is adopted: `hardpack adopt db.t`. Then `status` tells what is dirty, `plan` what a "
    "pass would do and why, `clean` runs phase one of it, `expire-tombstones` phase two, `verify` checks the "
    "guarantees; `read` gives its rows by offset as a consumer sees them, `seek` finds one; `explain` tells why a "
    "key's rows are still there, `doctor` whether catalog, storage and Spark work "
    "together.\n\nExit codes: 0 done or nothing to do, "
    "1 what nobody foresaw, 2 bad input, 3 a guarantee does not hold, 4 conflict, 5 a service did not answer, "
    "6 an expectation of your own failed.",
)


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
    # hardpack's own warnings are few and tell what was left out, so that they are shown without --verbose too
    begin_logging(
        logging.INFO if verbose else logging.WARNING, sys.stderr, logging.NOTSET if verbose else logging.ERROR
    )
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
    hp = console.connect()
    logs: list[LogStatus] = []
    refused: list[HardpackError] = []
    matching = hp.tables(tables)
    if not matching:
        err.print(f"No adopted table matches {tables}; `hardpack adopt NAMESPACE.TABLE` adopts one.", markup=False)
    for table in matching:
        try:
            logs += hp.status_of(table, now)
        except Exception as error:  # one broken table must not hide the others
            logging.getLogger("hardpack").info("the trace:", exc_info=error)
            refused.append(as_hardpack_error(error))
    show(logs, as_json, status_table)
    for refusal in refused:
        say(refusal)
    if refused:
        raise typer.Exit(max(error.exit_code for error in refused))


@app.command()
def segments(table: TableName, partition: Partitions = None, now: Now = None, as_json: AsJson = False) -> None:
    """The segments of each log, as a listing of a log's folder in Kafka: offsets, size, times, clean or dirty.

    `--json` has the names of the files too. Starts no JVM.
    """
    show(console.connect().segments(table, now, partition), as_json, segments_table)


@app.command()
def describe(table: TableName, partition: Partitions = None, as_json: AsJson = False) -> None:
    """The settings in force and where each comes from, and what passes know of each log. Starts no JVM."""
    described = console.connect().describe(table, partition)
    if as_json:
        print_json(described)
        return
    for part in description_tables(described):
        out.print(part)


@app.command()
def plan(
    table: TableName,
    partition: Partitions = None,
    now: Now = None,
    force: Annotated[bool, typer.Option(help="plan whatever is cleanable, whatever the ratio")] = False,
    tried: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="NAME=VALUE,VALUE",
            help="instead, what these values of a setting would have made of the table's kept history, as in "
            f"min.cleanable.dirty.ratio=0.1,0.5; one of {', '.join(TRIED)}",
        ),
    ] = None,
    every_ms: Annotated[
        int | None, typer.Option(min=1, help="with --what-if: ms between two looks [default: 3,600,000, an hour]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a pass would do and why; changes nothing, starts no JVM. `--json` prints what `clean --plan` takes."""
    if tried is None:
        if every_ms is not None:
            raise BadInput("--every-ms goes with --what-if; a plan is of one look.")
        planned = console.connect().plan(table, now, partition, force)
        if as_json:
            sys.stdout.write(planned.to_json() + "\n")
        else:
            out.print(plan_table(planned))
        return
    if force:
        raise BadInput("--what-if tries when passes run, and --force says that one runs; leave one of them out.")
    setting, values = tried_values(tried)
    report = console.connect().what_if(table, setting, values, every_ms or HOUR_MS, now, partition)
    show(report, as_json, what_if_table)


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
    hp = console.connect()
    try:
        wanted = bytes.fromhex(given.decode()) if hexadecimal else given
    except ValueError:
        raise BadInput("--hex: the key has a character that is no hexadecimal digit; expected as in 6b6579.") from None
    with err.status("looking for the key"):
        report = hp.explain(table, wanted, now, partition)
    show(report, as_json, key_table)


@app.command()
def doctor(
    namespace: Annotated[
        str | None, typer.Option(help="where to make the probe's table [default: a namespace of its own]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """See that catalog, storage and Spark work together: a small topic is made, cleaned, read by both, and removed."""
    with err.status("examining"):
        report = console.connect().doctor(namespace)
    show(report, as_json, doctor_table)
    if not report.well:
        raise typer.Exit(report.exit_code)


@app.command()
def policies(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="only the policy of this table")] = None,
    schema: Annotated[bool, typer.Option(help="print the JSON schema of the policy file")] = False,
    as_json: AsJson = False,
) -> None:
    """The policies of the policy file: which tables each names, when they are cleaned, and by which settings.

    What is wrong of a policy is said, and what is legal and yet hardly meant too. A file that passes makes DAGs, once
    Airflow can import what a policy calls on failure.
    """
    from hardpack.policy import Policies
    from hardpack.policy.file import VARIABLE, load_policies, policy_file
    from hardpack.table.catalog import is_configured

    if schema:
        sys.stdout.write(json.dumps(Policies.model_json_schema(), indent=1) + "\n")
        return
    path = policy_file()
    if path is None:
        raise BadInput(f"there is no policy file; name one in {VARIABLE} or put hardpack.yaml into HARDPACK_HOME.")
    loaded = load_policies(path)
    chosen, problems = [p for p in loaded.policies if not p.problem], loaded.problems() if table is None else []
    if table is not None:
        own = loaded.in_catalog(Shared.catalog).of(table)
        if own is None:
            raise BadInput(f"{table}: no policy of {path} names this table in catalog {Shared.catalog}.")
        if own.problem:
            raise BadInput(f"{table}: {own.problem}")
        chosen = [own]
    show(chosen, as_json, policies_table)
    for problem in problems:
        say(BadInput(problem))
    unknown = [
        f"no catalog {name} is in pyiceberg's configuration here, which policies name; mend the name, or add it."
        for name in loaded.catalogs
        if not is_configured(name)
    ]
    for doubt in [*loaded.doubts(), *unknown]:
        err.print(f"hardpack: {doubt}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if problems:
        raise typer.Exit(BadInput.exit_code)


for verbs in (passes, table_state, reading):
    app.add_typer(verbs.app)
app.add_typer(demo, name="demo")
app.add_typer(readers.app, name="reader")
app.command()(jars)


def main() -> None:
    """Runs the command line; whatever goes wrong is one sentence and an exit code, and with --verbose a trace too."""
    try:
        app()
    except Exception as error:
        logging.getLogger("hardpack").info("the trace:", exc_info=error)
        refusal = as_hardpack_error(error)
        say(refusal)
        sys.exit(refusal.exit_code)
