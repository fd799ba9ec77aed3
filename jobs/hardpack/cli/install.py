"""Verbs that make something to work with: Spark's jars, and topics of real data to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hardpack.cli.console import connect, err, out
from hardpack.home import default_home

demo = typer.Typer(no_args_is_help=True, help="Load a topic of real data to try things on.")


def jars(
    production: Annotated[
        bool, typer.Option("--production", help="also what S3, Glue and catalogs in PostgreSQL need")
    ] = False,
) -> None:
    """Fetch Iceberg's runtime and the drivers that Spark needs into HARDPACK_HOME/jars, from Maven Central.

    Then Java's classes are put into an archive there, once, from which Spark starts in less time.
    """
    from hardpack.operations.class_archive import make_class_archive
    from hardpack.spark.jars import fetch, needed
    from hardpack.spark.versions import TESTED, installed_spark

    folder = default_home() / "jars"
    with err.status("fetching jars"):
        fetched = fetch(folder, needed(installed_spark() or TESTED[0].spark, production))
    for jar in fetched:
        out.print(f"{jar}", soft_wrap=True, highlight=False)
    with err.status("making the archive of Java's classes, half a minute"):
        archive = make_class_archive()
    said = archive or "Java makes no archive of classes here; Spark starts more slowly, and all works."
    out.print(f"{said}", soft_wrap=True, highlight=False)


@demo.command("flights")
def demo_flights(table: Annotated[str, typer.Option(help="table to make")] = "demo.flights") -> None:
    """336,776 flights of 2013 keyed by aircraft, four partitions, twelve months."""
    from hardpack.demo.flights import load_flights

    with err.status("loading the flights"):
        flights = load_flights(connect().catalog, table)
    out.print(f"{table}: {flights.scan().count():,} records; look at it with `hardpack status {table}`.")


@demo.command("git")
def demo_git(
    path: Annotated[Path, typer.Argument(help="a local git repository")],
    table: Annotated[str, typer.Option(help="table to make")] = "demo.git",
    partitions: Annotated[int, typer.Option(min=1, help="partitions of the topic")] = 1,
) -> None:
    """Every change of every path of a git history; compacted, it equals `git ls-tree -r HEAD`."""
    from hardpack.demo.git import load_git

    with err.status("loading the history"):
        topic = load_git(connect().catalog, table, path, partitions)
    out.print(f"{table}: {topic.scan().count():,} records; look at it with `hardpack status {table}`.")
