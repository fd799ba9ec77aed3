"""The flights as they happened: a topic that goes on growing, a day at a time."""

from __future__ import annotations

import logging
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hardpack.demo.flights import PROPERTIES, ZONE, records
from hardpack.demo.topic import create_topic
from hardpack.table.catalog import open_table

log = logging.getLogger(__name__)
FIRST_DAYS = 14
DAY = "hardpack_demo.next_day"


def start_live(catalog: Catalog, name: str) -> Table:
    """Creates the table with the first two weeks of January, one commit a day."""
    table = create_topic(catalog, name, {**PROPERTIES, DAY: "0"})
    for _ in range(FIRST_DAYS):
        append_day(catalog, name)
    return table


def append_day(catalog: Catalog, name: str) -> bool:
    """Appends the next day's records and counts the day, in one commit.

    Returns:
        Whether there was a day left.
    """
    table = open_table(catalog, name)
    day = int(table.properties[DAY])
    topic = _year()
    rows = topic.filter(pc.equal(day_numbers(topic), day))
    if not rows.num_rows:
        return False
    with table.transaction() as transaction:
        transaction.append(rows)
        transaction.set_properties({DAY: str(day + 1)})
    log.info("%s: day %d, %d records", name, day + 1, rows.num_rows)
    return True


@cache
def _year() -> pa.Table:
    return records()


def day_numbers(topic: pa.Table) -> pa.Array:
    """Returns the day of the year of each record in New York, from 0; a departure after its end counts to its last."""
    local = topic["timestamp"].to_pandas().dt.tz_convert(ZONE)
    return pa.array((local.dt.dayofyear - 1).where(local.dt.year == 2013, 364))
