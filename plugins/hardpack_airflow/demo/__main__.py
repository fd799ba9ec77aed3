"""Kafka's log compaction through a real Airflow, on this machine and on real data.

python -m hardpack_airflow.demo run|up|down [--port N]
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import psutil
import typer
from hardpack import Hardpack, PassReport
from hardpack.cli.render import pass_table, status_table, terminal
from hardpack.home import default_home
from hardpack.table.catalog import find_tables

from hardpack_airflow.demo.lakehouse import make_lakehouse
from hardpack_airflow.demo.local_airflow import USER, LocalAirflow
from hardpack_airflow.report import as_gates_read

DAG = "hardpack"
FLIGHTS, LIVE = "demo.flights", "demo.flights_live"
HOME = default_home()
# the default home's configuration lies where `hardpack` looks when it is called here
CONFIG = HOME.parent if Path.cwd() / ".hardpack" == HOME else HOME
WRITER_PID = HOME / "writer.pid"
Port = Annotated[int, typer.Option(help="port of Airflow on loopback")]
Given = Annotated[bool, typer.Option("--given", help="use the catalog that pyiceberg's configuration names, make none")]
Master = Annotated[str, typer.Option(help="Spark's master for Airflow's tasks")]

UP, DOWN = (f"python -m hardpack_airflow.demo {verb}" for verb in ("up", "down"))

app = typer.Typer(add_completion=False, help=__doc__)
out = terminal()


def lakehouse(given: bool = False) -> Hardpack:
    """Returns the library over a catalog that is given, or else over the demo's own, whose files it makes."""
    if given:
        return Hardpack.connect(home=HOME)
    return Hardpack.connect(properties=make_lakehouse(HOME, CONFIG), home=HOME)


@app.command()
def run(port: Port = 8080, given: Given = False, master: Master = "local[2]") -> None:
    """Load the flights, let Airflow compact them once, show what happened."""
    started = time.monotonic()
    hp = lakehouse(given)
    if FLIGHTS not in find_tables(hp.catalog, "*.*"):
        from hardpack.demo.flights import load_flights

        with out.status("loading the flights of 2013"):
            load_flights(hp.catalog, FLIGHTS)
        out.print(f"loaded {FLIGHTS}")
    out.print(status_table(hp.status(FLIGHTS)))
    airflow = LocalAirflow(HOME, port, {"tables": FLIGHTS, "schedule": ""}, CONFIG, master=master)
    try:
        _start(airflow)
        airflow.prepare(DAG, paused=False)
        good = _one_run(airflow)
    finally:
        airflow.stop()
    out.print(f"{time.monotonic() - started:.0f} s in all; Airflow is stopped, `{UP}` keeps one running.")
    raise typer.Exit(0 if good else 1)


def _start(airflow: LocalAirflow) -> None:
    try:
        with out.status("starting Airflow"):
            airflow.start()
    except RuntimeError as error:
        sys.exit(f"hardpack: {error}")


def _one_run(airflow: LocalAirflow) -> bool:
    started = time.monotonic()
    run_id = airflow.trigger(DAG, {"tables": FLIGHTS})
    out.print(f"Airflow runs {DAG}, run {run_id}")
    states: dict[str, str] = {}
    for task, state in airflow.watch(DAG, run_id):
        states[task] = state
        out.print(f"{time.monotonic() - started:7.1f} s  {task or 'the run'}: {state}")
    if states["sense"] == "skipped":
        _show_reasons(airflow, run_id)
        return states[""] == "success"
    if states[""] != "success":
        _show_failures(airflow, run_id, [task for task, state in states.items() if state == "failed"])
        return False
    return _show_results(airflow, run_id)


def _show_reasons(airflow: LocalAirflow, run_id: str) -> None:
    out.print("nothing is due, so nothing was changed:")
    for line in airflow.log(DAG, run_id, "sense").splitlines():
        if line.startswith(f"{FLIGHTS}/"):
            out.print(f"  {line}")


def _show_failures(airflow: LocalAirflow, run_id: str, tasks: list[str]) -> None:
    for task in filter(None, tasks):
        name, _, index = task.rstrip("]").partition("[")
        out.print(airflow.log(DAG, run_id, name, map_index=int(index or -1))[-3000:])


def _show_results(airflow: LocalAirflow, run_id: str) -> bool:
    units = range(len(airflow.xcom(DAG, run_id, "plan")))
    for verb in ("phase_one", "phase_two"):
        for result in (r for unit in units for r in airflow.xcom(DAG, run_id, f"unit.{verb}", unit)):
            report = PassReport.model_validate(result)
            out.print(pass_table(report) if report.logs else f"{report.table}, phase {report.phase}: nothing to do")
            if report.data_docs:
                out.print(f"Data Docs: {report.data_docs}", soft_wrap=True)
    checks = [check for unit in units for check in airflow.xcom(DAG, run_id, "unit.verify", unit)]
    for check in checks:
        said = "every guarantee holds" if check["success"] else "A GUARANTEE IS BROKEN"
        out.print(f"{check['table']}: {said}{as_gates_read(check['not_read_again'])}")
        for page in check["data_docs"]:
            out.print(f"Data Docs: {page}", soft_wrap=True)
    out.print(f"report: {airflow.xcom(DAG, run_id, 'report')}", soft_wrap=True)
    return bool(checks) and all(c["success"] for c in checks)


@app.command()
def up(port: Port = 8080) -> None:
    """Keep Airflow running, with a writer that appends a further day of flights every half minute."""
    hp = lakehouse()
    airflow = LocalAirflow(HOME, port, {"tables": LIVE, "schedule": "*/3 * * * *"}, CONFIG)
    if airflow.running():
        out.print(f"already running at {airflow.url}; `{DOWN}` stops it.")
        return
    if LIVE not in find_tables(hp.catalog, "*.*"):
        from hardpack.demo.live import start_live

        start_live(hp.catalog, LIVE)
    _start(airflow)
    airflow.prepare(DAG, paused=False)
    writer = subprocess.Popen(
        [sys.executable, "-m", "hardpack_airflow.demo", "write"], env=airflow.env, start_new_session=True,
        stdout=(HOME / "writer.log").open("w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    WRITER_PID.write_text(str(writer.pid))
    out.print(f"Airflow: {airflow.url}/dags/{DAG}  user {USER}  password {airflow.passwords[USER]}", soft_wrap=True)
    out.print(
        f"\n{LIVE} gets a day of flights every 30 s; every 3 minutes Airflow looks and compacts what is dirty.\n"
        f"  what is dirty, late and reclaimed   {airflow.url}/plugin/hardpack\n"
        f"  one table, log by log               {airflow.url}/hardpack/tables/{LIVE}\n"
        f"  the runs, each task with its links  {airflow.url}/dags/{DAG}\n"
        f"  try: Trigger there, with 'Dry run', and read the log of `plan`; or with 'Force'.\n"
        f"`{DOWN}` stops all.",
        soft_wrap=True,
    )


@app.command(hidden=True)
def write(every: float = 30) -> None:
    """Writes one more day of real flights, again and again until the year is over."""
    from hardpack.demo.live import append_day

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    hp = lakehouse()
    while append_day(hp.catalog, LIVE):
        time.sleep(every)


@app.command()
def down(port: Port = 8080) -> None:
    """Stop the writer and Airflow."""
    try:
        writer = psutil.Process(int(WRITER_PID.read_text()))
        if "hardpack_airflow.demo" in " ".join(writer.cmdline()):
            writer.terminate()
    except (OSError, ValueError, psutil.Error):
        pass
    WRITER_PID.unlink(missing_ok=True)
    LocalAirflow(HOME, port, {}, CONFIG).stop()
    out.print("stopped")


if __name__ == "__main__":
    app()
