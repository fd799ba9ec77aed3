"""The run's report: one JSON file per run, and the same as log lines; how long reports stay."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

VERBS = ("phase_one", "phase_two", "verify")
"""What is done to a unit, in this order."""
DAY_SECONDS = 86_400


def write_report(
    dag: str,
    run: str,
    catalog: str,
    now: int,
    results: Mapping[str, Sequence[dict[str, Any]]],
    errors: Sequence[str],
    plans: Iterable[str] = (),
    held: Sequence[dict[str, Any]] = (),
) -> Path:
    """Writes what a run did as JSON of `hardpack.compaction.report.RunReport`, see `docs/run_report.schema.json`.

    Args:
        dag: Airflow's id of the DAG.
        run: Airflow's id of the run.
        catalog: where the tables are.
        now: the run's time, ms.
        results: per verb the reports of the tables.
        errors: one sentence per table that could not be cleaned.
        plans: the plans of the run's units, as JSON text.
        held: logs that somebody has to do something about, each a `PlannedLog`.

    Returns:
        The file, `reports/<dag>.<run id>.json` in the home; where an id is long or has other characters than letters,
        digits and `_.-`, its hash stands behind it.
    """
    from hardpack.compaction.plan import Plan
    from hardpack.compaction.report import RunReport
    from hardpack.errors import BadInput
    from hardpack.home import default_home, file_name, replace_file
    from hardpack.operations.units import planned_logs

    plans_read = list[Plan]()
    for plan in plans:
        with suppress(BadInput):  # the plan is of another version of hardpack, which was installed when it was made
            plans_read.append(Plan.from_json(plan))
    about = {"run": run, "dag": dag, "catalog": catalog, "now": now, "errors": list(errors), "held": list(held)}
    report = RunReport.model_validate(about | {"planned": planned_logs(plans_read), **results})
    path = default_home() / "reports" / f"{file_name(dag, dots=False)}.{file_name(run)}.json"
    replace_file(path, report.model_dump_json(indent=1))
    return path


def forget_reports(home: Path, before: float, runs_before: float, seconds: float = math.inf) -> int:
    """Removes files of runs that were last written before a time; times are seconds since the epoch.

    Args:
        home: hardpack's home.
        before: reports, pages of Data Docs and their results are removed when they are older than this.
        runs_before: plans and results of runs are removed when they are older than both times, as a run that goes on
            may still need them.
        seconds: how long it may take; what is then left is for the next time.

    Returns:
        How many files were removed.
    """
    last = dict.fromkeys(("plans", "results"), min(before, runs_before))
    last |= dict.fromkeys(("reports", "validations", "data_docs/validations"), before)
    end = time.monotonic() + seconds
    return sum(_forget(home / name, oldest, end) for name, oldest in last.items())


def _forget(folder: Path, before: float, end: float) -> int:
    """Removes old files of a folder and of those inside it, and returns how many.

    It removes each as it finds it, and begins at another file each time, so that a sweep that is cut off has done its
    part.
    """
    gone = 0
    # another run may remove the same files
    with suppress(OSError):
        found = list(folder.iterdir())
        first = int(before) % max(1, len(found))
        for path in found[first:] + found[:first]:
            if time.monotonic() > end:
                break
            with suppress(OSError):
                # a folder's age is read before files in it are removed; another run may be filling a new one
                is_old = path.lstat().st_mtime < before
                if path.is_dir() and not path.is_symlink():
                    gone += _forget(path, before, end)
                    if is_old:
                        path.rmdir()
                elif is_old:
                    path.unlink()
                    gone += 1
    return gone


def unit_errors(pulled: Mapping[str, Sequence[Sequence[dict[str, Any]]]]) -> list[str]:
    """Returns what went wrong in a run's units, a sentence each.

    Args:
        pulled: per verb, in the order of work, what its task returned for each unit: empty if nothing, else for each
            table a report or its error. Each verb hands on the errors of those before it.
    """
    errors = [one["error"] for verbs in _by_unit(pulled) for one in _last(verbs) if "error" in one]
    # units that left nothing are counted; in the others each failed table has its sentence
    if stopped := sum(map(_stopped_early, _by_unit(pulled))):
        of = len(next(iter(pulled.values())))
        errors.append(f"{stopped} of {of} units did not reach the end, see their tasks")
    return errors


def units_that_died(pulled: Mapping[str, Sequence[Sequence[dict[str, Any]]]]) -> int:
    """Returns how many of a run's units did not reach the end, or had an application that did not.

    A unit that ends early because each of its tables has an error did not die.

    Args:
        pulled: see `unit_errors`.
    """
    return sum(_stopped_early(verbs) or any(one.get("died") for one in _last(verbs)) for verbs in _by_unit(pulled))


Found = Sequence[dict[str, Any]]
"""What a task returned for a unit: for each table a report or its error, with `died` where its application died."""


def _stopped_early(verbs: Sequence[Found]) -> bool:
    """Returns whether a unit's last task left nothing, though the work on some table had not ended."""
    last = _last(verbs)
    return not verbs[-1] and not (last and all("error" in one for one in last))


def _by_unit(pulled: Mapping[str, Sequence[Found]]) -> Iterator[tuple[Found, ...]]:
    return zip(*pulled.values(), strict=True)


def _last(verbs: Sequence[Found]) -> Found:
    """Returns the results of the last verb of a unit that returned any; empty when none did."""
    return next((results for results in reversed(verbs) if results), ())


def gauges(results: Mapping[str, Found], died: int) -> dict[str, float]:
    """Returns what the passes of a run did, by the names of `hardpack.operations.gauges`.

    Args:
        results: per verb the reports of the tables.
        died: units that did not reach the end.
    """
    from hardpack.compaction.report import PassReport
    from hardpack.operations import gauges as named

    passes = [*results["phase_one"], *results["phase_two"]]
    return {**named.cleaned(PassReport.model_validate(report) for report in passes), **named.died(died)}


def lines(results: Mapping[str, Sequence[dict[str, Any]]]) -> list[str]:
    """Returns one line per log and pass, and what was found of each table."""
    from hardpack.rules.causes import removed_by_cause

    out = []
    for verb in ("phase_one", "phase_two"):
        for report in results[verb]:
            out += [f"{report['table']} {verb}: {note}" for note in report["notes"]]
            out += [
                f"{report['table']}/{e['partition']} {verb}: rows {e['rows_before']:,} -> {e['rows_after']:,}, "
                f"bytes {e['bytes_before']:,} -> {e['bytes_after']:,}, "
                + "".join(f"{cause.label} {rows:,}, " for cause, rows in removed_by_cause([e]).items())
                + f"tombstones waiting {'?' if e['tombstones_waiting'] is None else e['tombstones_waiting']}, "
                f"checkpoint {e['checkpoint_after']}, "
                f"files rewritten {e['files_rewritten']}, left alone {e['files_left_alone']}"
                for e in report["logs"]
            ]
    for report in results["verify"]:
        verdict = "every guarantee holds" if report["success"] else "A GUARANTEE IS BROKEN"
        if failed := sum(not one["success"] for one in report.get("own", ())):
            verdict += f", {failed} of {len(report['own'])} of your own expectations failed"
        verdict += as_gates_read(report.get("not_read_again", 0))
        if report["data_docs"]:
            verdict += f"; Data Docs {', '.join(report['data_docs'])}"
        out.append(f"{report['table']}: {verdict}")
    return out


def as_gates_read(logs: int) -> str:
    """Returns the words behind a verdict for logs that verify did not read again; empty when it read all."""
    return f"; {logs} {'log stands' if logs == 1 else 'logs stand'} as the gate has read" if logs else ""
