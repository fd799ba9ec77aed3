"""Assets of compacted tables, on which other DAGs can be scheduled: one per table, one alias for all."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias

COMPACTED = AssetAlias("hardpack_compacted")
"""Gets an event whenever some logs of any table were cleaned and the guarantees hold on what was published."""


MOST_LOGS = 200
"""Most logs that one event lists."""


def asset_of(catalog: str, table: str) -> Asset:
    """Returns the asset of one table, `iceberg://CATALOG/NAMESPACE/TABLE`, which is its name too.

    Name and address are equal, so a DAG that knows the address alone can be scheduled on the asset.

    Args:
        catalog: its name in pyiceberg's configuration.
        table: `namespace.table`.
    """
    return Asset(f"iceberg://{quote(catalog)}/{'/'.join(map(quote, table.split('.')))}")


def compacted(report: dict[str, Any]) -> dict[str, Any]:
    """Returns what an asset event says of a pass: its snapshot, its time, and each log's numbers before and after.

    The numbers are rows, bytes and the checkpoint. The event goes through Airflow's database, so it lists the first
    `MOST_LOGS` logs and counts the others in `more_logs`.
    """
    names = ("rows_before", "rows_after", "bytes_before", "bytes_after", "checkpoint_before", "checkpoint_after")
    return {
        "snapshot": report["snapshot"],
        "now": report["now"],
        "logs": {str(log["partition"]): {name: log[name] for name in names} for log in report["logs"][:MOST_LOGS]},
        **({"more_logs": more} if (more := len(report["logs"]) - MOST_LOGS) > 0 else {}),
    }
