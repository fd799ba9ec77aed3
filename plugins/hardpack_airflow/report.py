"""The run's report: one JSON file per run, and the same as log lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_report(run_id: str, now: int, results: dict[str, Sequence[dict[str, Any]]], errors: Sequence[str]) -> Path:
    """Write what a run did.

    Args:
        run_id: Airflow's.
        now: the run's time, ms.
        results: per verb the reports of the units.
        errors: one sentence per table that was refused.

    Returns:
        The file, `reports/<run id>.json` in the home.
    """
    from hardpack.home import default_home

    folder = default_home() / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', run_id)}.json"
    path.write_text(json.dumps({"version": 1, "run": run_id, "now": now, **results, "errors": list(errors)}, indent=1))
    return path


def gauges(results: dict[str, Sequence[dict[str, Any]]]) -> dict[str, float]:
    """What the passes of a run did, by the names of `hardpack.metrics`."""
    from hardpack.metrics import cleaned
    from hardpack.report import PassReport

    passes = [*results["phase_one"], *results["phase_two"]]
    return dict(cleaned(PassReport.model_validate(report) for report in passes))


def lines(results: dict[str, Sequence[dict[str, Any]]]) -> list[str]:
    """One line per log and pass."""
    out = []
    for verb in ("phase_one", "phase_two"):
        for report in results[verb]:
            out += [f"{report['table']} {verb}: {note}" for note in report["notes"]]
            out += [
                f"{report['table']}/{e['partition']} {verb}: rows {e['rows_before']:,} -> {e['rows_after']:,}, "
                f"bytes {e['bytes_before']:,} -> {e['bytes_after']:,}, superseded {e['superseded']:,}, "
                f"without key {e['null_key']:,}, expired {e['expired_tombstone']:,}, "
                f"tombstones waiting {'?' if e['tombstones_waiting'] is None else e['tombstones_waiting']}, "
                f"checkpoint {e['checkpoint_after']}, "
                f"files rewritten {e['files_rewritten']}, left alone {e['files_left_alone']}"
                for e in report["logs"]
            ]
    for report in results["verify"]:
        out.append(f"{report['table']}: every guarantee holds; Data Docs {', '.join(report['data_docs'])}")
    return out
