"""How a task hands its results on: short ones through XCom, long ones in files of hardpack's home that XCom names.

Airflow keeps XCom in its database. The files are copied to S3 as reports are, so that any worker finds them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpack_airflow.config import setting
from hardpack_airflow.failures import task_failure
from hardpack_airflow.planning import shortened
from hardpack_airflow.s3_copy import MANY, download, upload, upload_or_warn

MOST_XCOM = 64_000
"""Most characters that a task hands on through XCom; what is longer goes into files."""
SHORT_LABEL = 80
PLANS, RESULTS = "plans", "results"


def plans_handed_on(units: Sequence[dict[str, Any]], dag: str, run: str) -> list[dict[str, Any]]:
    """Returns units as a task may return them: as they are when short, else each with a file's name for its plans.

    Args:
        units: each has a `label`, `plans` as JSON text, and perhaps further fields, which stay.
        dag: Airflow's id of the DAG.
        run: Airflow's id of the run.
    """
    if _is_little(units):
        return list(units)
    files = [_written(PLANS, dag, run, f"{number}", unit["plans"]) for number, unit in enumerate(units)]
    try:
        upload(files)
    except Exception as error:  # nothing is done yet, and workers on other machines would not find the files
        raise task_failure(error) from error
    return [
        {name: value for name, value in unit.items() if name != "plans"}
        | {"label": shortened(unit["label"], SHORT_LABEL), "file": _place(file)}
        for unit, file in zip(units, files, strict=True)
    ]


def plans_of(unit: Mapping[str, Any]) -> list[str]:
    """Returns the plans of a unit as JSON text.

    Raises:
        AirflowFailException: its file is neither in this machine's home nor on S3.
        AirflowException: S3 does not answer.
    """
    return list(unit["plans"]) if "plans" in unit else _read(unit["file"])


def results_handed_on(results: list[dict[str, Any]], dag: str, run: str, task: str) -> Any:
    """Returns a verb's results as its task may return them: as they are when short, else the name of their file.

    Args:
        results: for each plan a report or what ended the work on it.
        dag: Airflow's id of the DAG.
        run: Airflow's id of the run.
        task: Airflow's id of the task, with its map index.
    """
    if _is_little(results):
        return results
    file = _written(RESULTS, dag, run, task, results)
    # a warning is enough: the work is done, and workers that share this home need no copy
    upload_or_warn([file], MANY)
    return {"file": _place(file)}


def results_of(returned: Any) -> list[dict[str, Any]]:
    """Returns a verb's results from what its task returned; empty while the task has not ended.

    Raises:
        AirflowFailException: its file is neither in this machine's home nor on S3.
        AirflowException: S3 does not answer.
    """
    return _read(returned["file"]) if isinstance(returned, dict) else list(returned or ())


def _is_little(value: Sequence[Any]) -> bool:
    return len(json.dumps(value)) <= MOST_XCOM


def _written(kind: str, dag: str, run: str, name: str, value: Any) -> Path:
    from hardpack.home import default_home, file_name, replace_file

    folder = default_home() / kind / f"{file_name(dag, dots=False)}.{file_name(run)}"
    text = json.dumps(value)
    # the digest tells apart what an earlier try left on the disk of a worker that shares no home
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    file = folder / f"{file_name(name)}.{digest}.json"
    replace_file(file, text)
    return file


def _place(file: Path) -> str:
    from hardpack.home import default_home

    return file.relative_to(default_home()).as_posix()


def _read(place: str) -> list[Any]:
    from hardpack.home import default_home

    from hardpack_airflow.airflow_names import AirflowFailException

    file = default_home() / place
    try:
        there = file.is_file() or download(file)
    except Exception as error:  # whatever it is, the task fails with its sentence
        raise task_failure(error) from error
    if not there:
        copied = setting("reports_s3")
        where = f"neither here nor in {copied}" if copied else "not here"
        mend = "" if copied else "; let HARDPACK_HOME be one folder for all workers, or name a place in reports_s3"
        raise AirflowFailException(
            f"{file} is {where}, which an earlier task of the run has written{mend}. If it was there and is gone by "
            "now, clear the run from its task plan on."
        )
    content: list[Any] = json.loads(file.read_text())
    return content
