"""What a task reports to OpenLineage: the tables it read and wrote, and how much it wrote.

Airflow's OpenLineage provider calls this; where it is not installed, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def lineage_of(catalog: str, results: Iterable[Mapping[str, Any]]) -> Any:
    """Returns the provider's `OperatorLineage`.

    Args:
        catalog: its name in pyiceberg's configuration. A table is the dataset `NAMESPACE.TABLE` of the namespace
            `iceberg://CATALOG`, as its asset is.
        results: what a verb returned for each table. A pass that published a snapshot wrote the table, with the
            files and bytes that its report says, and so did maintenance whose retention took rows; every other one
            has read it.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset, OutputDataset
    from airflow.providers.common.compat.openlineage.facet import OutputStatisticsOutputDatasetFacet as Written
    from airflow.providers.openlineage.extractors.base import OperatorLineage

    inputs, outputs = [], []
    for result in results:
        if "error" in result:
            continue
        inputs.append(Dataset(namespace=f"iceberg://{catalog}", name=result["table"]))
        published = result.get("snapshot") and result.get("logs")
        if published or result.get("rows_past_retention"):
            facets: dict[str, Any] = {}
            if published:
                logs = result["logs"]
                size, files = (sum(log[name] for log in logs) for name in ("bytes_written", "files_written"))
                facets["outputStatistics"] = Written(size=size, fileCount=files)
            outputs.append(OutputDataset(namespace=f"iceberg://{catalog}", name=result["table"], outputFacets=facets))
    return OperatorLineage(inputs=inputs, outputs=outputs)
