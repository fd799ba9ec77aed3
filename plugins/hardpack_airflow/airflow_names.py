"""What differs between Airflow 3.1, 3.2 and 3.3; each name is imported from the module where this Airflow has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow import __version__

__all__ = [
    "FRAMES_DEEP", "AirflowException", "AirflowFailException", "AirflowSkipException", "AirflowTaskTimeout", "conf",
    "deadline", "schedule", "stats",
]  # fmt: skip
FRAMES_DEEP = tuple(map(int, __version__.split(".")[:2])) >= (3, 3)
"""Whether an address can name the page that Airflow opens in its frame. Before 3.3 it always opens the first page."""


def _first(name: str, *modules: str) -> Any:
    """Returns a name from the first module that has it."""
    for module in modules[:-1]:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    return getattr(import_module(modules[-1]), name)


if TYPE_CHECKING:
    from airflow.sdk import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowSkipException,
        AirflowTaskTimeout,
    )
else:
    conf = _first("conf", "airflow.sdk", "airflow.configuration")
    AirflowException, AirflowFailException, AirflowSkipException, AirflowTaskTimeout = (
        _first(name, "airflow.sdk.exceptions", "airflow.exceptions")
        for name in ("AirflowException", "AirflowFailException", "AirflowSkipException", "AirflowTaskTimeout")
    )


def schedule(cron: str, timezone: str = "UTC") -> Any:
    """Returns a DAG's schedule as a timetable with data intervals; a run of a plain cron string has no interval.

    Args:
        cron: an expression; an empty one gives None, which means runs by hand only.
        timezone: in which the expression is read.
    """
    timetable = _first("CronDataIntervalTimetable", "airflow.sdk", "airflow.timetables.interval")
    return timetable(cron, timezone=timezone) if cron else None


def deadline(interval: timedelta, coroutine: Callable[..., Awaitable[Any]]) -> Any:
    """Returns a DAG's `deadline`: the triggerer awaits the coroutine when a run does not end in time.

    Args:
        interval: the time that a run has from its queueing to its end.
        coroutine: a function of a module that the triggerer can import too; it may take Airflow's `context`.
    """
    place = "airflow.sdk.definitions.deadline"
    alert, reference = _first("DeadlineAlert", place), _first("DeadlineReference", place)
    callback = _first("AsyncCallback", "airflow.sdk.definitions.callback", place)
    return alert(reference=reference.DAGRUN_QUEUED_AT, interval=interval, callback=callback(coroutine))


def stats() -> Any:
    """Returns the object by which Airflow sends its own metrics."""
    try:
        module = import_module("airflow.sdk.observability.stats")
    except ImportError:
        module = import_module("airflow.stats")
    # Airflow 3.2 has the module, and its functions still on the class
    return module if hasattr(module, "gauge") else module.Stats
