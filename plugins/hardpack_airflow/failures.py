"""How an error of the library ends a task: at once, or with another try."""

from __future__ import annotations

from hardpack_airflow.airflow_names import AirflowException, AirflowFailException


def hopeless(error: Exception) -> bool:
    """Returns whether another try cannot help: the input is bad, or somebody has to mend the table."""
    return type(error).__name__ in ("BadInput", "Unreadable")


def task_failure(error: Exception) -> AirflowException:
    """Returns what a task raises in the place of an error, with its sentence."""
    from hardpack.failures import sentence

    told = sentence(error)
    return (AirflowFailException if hopeless(told) else AirflowException)(str(told))
