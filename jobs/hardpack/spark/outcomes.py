"""What became of transactions: each transactional row with the outcome that its producer's next control row tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def decided(rows: DataFrame) -> DataFrame:
    """Returns the transactional rows with the outcome of their transaction: the producer's next control row.

    Args:
        rows: of whole logs, as the control row may lie in the active segment.

    Returns:
        The columns of `rows`, `outcome` (commit, abort or null) and `marker` (offset of the control row).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    later = Window.partitionBy("p", "pid").orderBy(F.col("o").desc()).rowsBetween(Window.unboundedPreceding, 0)
    marker = F.when(F.col("control").isNotNull(), F.col("o"))
    return (
        rows.where("tx or control is not null")
        .withColumn("outcome", F.last("control", ignorenulls=True).over(later))
        .withColumn("marker", F.last(marker, ignorenulls=True).over(later))
        .where("tx")
    )
