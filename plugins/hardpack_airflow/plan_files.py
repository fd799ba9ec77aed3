"""Plans on their way from the task that makes them to those that carry them out: few by XCom, many in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpack_airflow.planning import shortened
from hardpack_airflow.publish import fetch, publish

MOST_XCOM = 64_000
"""Characters that a task hands on through XCom, which Airflow keeps in its database."""
SHORT_LABEL = 80


def handed_on(units: Sequence[dict[str, Any]], dag: str, run: str) -> list[dict[str, Any]]:
    """Returns units as a task may return them: with their plans while these are few, else with the names of files.

    The files lie at `plans/<dag>.<run>/` in the home, and beside the reports on S3 where these are copied.

    Args:
        units: each a `label` and `plans` as JSON text.
        dag: Airflow's id of the DAG.
        run: Airflow's id of the run.
    """
    if len(json.dumps(units)) <= MOST_XCOM:
        return list(units)
    from hardpack.home import default_home, file_name

    folder = default_home() / "plans" / f"{file_name(dag, dots=False)}.{file_name(run)}"
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for number, unit in enumerate(units):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(unit["plans"]))
        place = file.relative_to(default_home()).as_posix()
        out.append({"label": shortened(unit["label"], SHORT_LABEL), "file": place})
    publish(folder.iterdir())
    return out


def plans_of(unit: Mapping[str, Any]) -> list[str]:
    """Returns the plans of a unit as JSON text.

    Raises:
        AirflowFailException: its file is neither in this machine's home nor on S3.
    """
    if "plans" in unit:
        return list(unit["plans"])
    from hardpack.home import default_home

    from hardpack_airflow.airflow_names import AirflowFailException

    file = default_home() / Path(unit["file"])
    if not file.is_file() and not fetch(file):
        raise AirflowFailException(
            f"{file} is not here, which the task `plan` has written; let HARDPACK_HOME be one folder for all workers, "
            "or name a place on S3 in [hardpack] reports_s3."
        )
    plans: list[str] = json.loads(file.read_text())
    return plans
