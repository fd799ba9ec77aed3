"""The verbs that work on tables: passes, maintenance, verification."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hardpack.cli import console
from hardpack.cli.arguments import read_plan
from hardpack.cli.console import err, out
from hardpack.cli.each_table import each_table
from hardpack.cli.options import AsJson, DryRun, Now, Partitions, TableName, TableNames, print_json, show
from hardpack.cli.render import maintenance_table, own_table, pass_table, plan_table, split_table, verify_table
from hardpack.compaction.plan import Plan
from hardpack.compaction.report import MaintenanceReport, PassReport, VerifyReport
from hardpack.errors import BadInput, ExpectationFailed, GateRefused

app = typer.Typer()


@app.command()
def clean(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE...]", help="tables or globs such as 'db.*', or give --plan")
    ] = None,
    plan_file: Annotated[Path | None, typer.Option("--plan", help="a plan as `plan --json` printed it")] = None,
    partition: Partitions = None,
    now: Now = None,
    force: Annotated[bool, typer.Option(help="clean whatever is cleanable, whatever the ratio")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Phase one: drop superseded rows, give new tombstones a horizon, move the checkpoint."""
    hp = console.connect()
    if (plan_file is None) == (not tables):
        raise BadInput("give either tables or --plan FILE, as in `hardpack clean db.t`.")
    if plan_file and (partition or force or now is not None):
        raise BadInput("a plan says which logs, when and how; leave --partition, --now and --force out, or plan anew.")
    plans: dict[str, Plan] = {}

    def work(table: str) -> PassReport:
        plans[table] = hp.plan(table, now, partition, force)
        return hp.clean(plans[table], dry_run)

    if plan_file:
        plan = read_plan(plan_file)
        with err.status("looking" if dry_run else "cleaning"):
            report = hp.clean(plan, dry_run)
        print_json(report) if as_json else _show_cleaned(report, plan, dry_run)
        return
    shown = None if as_json else lambda report: _show_cleaned(report, plans[report.table], dry_run)
    each_table(hp, tables or (), "looking" if dry_run else "cleaning", work, shown)


def _show_cleaned(report: PassReport, plan: Plan, dry_run: bool) -> None:
    if report.logs:
        out.print(pass_table(report, dry_run=dry_run))
        return
    out.print("nothing is due:" if plan.split else "nothing is due, so nothing was changed:", *report.notes, sep="\n")
    out.print(plan_table(plan))


@app.command()
def split(table: TableName, now: Now = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Take files apart that hold rows of several logs, as some sinks write them; `clean` begins with it."""
    hp = console.connect()
    with err.status("splitting"):
        report = hp.split(table, now, dry_run)
    show(report, as_json, partial(split_table, dry_run=dry_run))


@app.command("expire-tombstones")
def expire_tombstones(
    tables: TableNames, partition: Partitions = None, now: Now = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Phase two: remove the tombstones whose delete horizon has passed; one commit a table."""
    hp = console.connect()
    shown = None if as_json else lambda report: out.print(pass_table(report, dry_run=dry_run))
    each_table(
        hp, tables, "expiring tombstones", lambda name: hp.expire_tombstones(name, now, partition, dry_run), shown
    )


@app.command()
def retention(
    tables: TableNames, partition: Partitions = None, now: Now = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """With `delete` in cleanup.policy: delete whole segments past retention.ms or retention.bytes."""
    hp = console.connect()
    shown = None if as_json else lambda report: out.print(pass_table(report, dry_run=dry_run))
    each_table(hp, tables, "applying retention", lambda name: hp.apply_retention(name, now, partition, dry_run), shown)


@app.command()
def verify(tables: TableNames, partition: Partitions = None, now: Now = None, as_json: AsJson = False) -> None:
    """Check the guarantees on published tables and write Data Docs; exit code 3 when a pass broke one.

    Your own expectations in HARDPACK_HOME/expectations are checked too; exit code 6 when a critical one fails.
    """
    hp = console.connect()
    shown = None if as_json else _show_verified

    def code_of(report: VerifyReport) -> int:
        if not report.passes_hold:
            return GateRefused.exit_code
        return ExpectationFailed.exit_code if report.failed_own else 0

    each_table(hp, tables, "verifying", lambda name: hp.verify(name, now, partition), shown, code_of)


def _show_verified(report: VerifyReport) -> None:
    out.print(verify_table(report))
    if report.own:
        out.print(own_table(report))
    for page in report.data_docs:
        out.print(f"Data Docs: {page}", soft_wrap=True)


@app.command()
def maintain(
    tables: TableNames,
    now: Now = None,
    dry_run: Annotated[bool, typer.Option(help="only say what could go")] = False,
    as_json: AsJson = False,
) -> None:
    """Free what reclaimed bytes still take: retention, old snapshots, orphan files, manifests; by Iceberg's own means.

    Snapshots stay as long as history.expire.max-snapshot-age-ms says, and those by which a sink finds its way back.
    """
    hp = console.connect()

    def shown(report: MaintenanceReport) -> None:
        out.print(maintenance_table(report))

    each_table(hp, tables, "cleaning up", lambda name: hp.maintain(name, now, dry_run), None if as_json else shown)
