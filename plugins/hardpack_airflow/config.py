"""hardpack's section of Airflow's own configuration: `[hardpack]` in airflow.cfg, or AIRFLOW__HARDPACK__NAME."""

from __future__ import annotations

from airflow.sdk import CronDataIntervalTimetable, conf

SECTION = "hardpack"
DEFAULTS = {
    "schedule": "0 * * * *",
    "tables": "*.*",
    "catalog": "hardpack",
    "unit_bytes": str(100 * 1024**3),
    "pool": "hardpack",
    "driver_memory": "2g",
    "spark_conn_id": "spark_default",
    "jobs": "",
}


def setting(name: str) -> str:
    """A setting's value, else its default."""
    return str(conf.get(SECTION, name, fallback=DEFAULTS[name]))


def timetable() -> CronDataIntervalTimetable | None:
    """The schedule in UTC, None when it is set to nothing: runs by hand only."""
    schedule = setting("schedule")
    return CronDataIntervalTimetable(schedule, timezone="UTC") if schedule else None
