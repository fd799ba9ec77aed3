"""Transactions at scale: the rules of `hardpack.rules.reference.transactions` as Spark jobs over many logs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hardpack.errors import UncleanableLog
from hardpack.spark.outcomes import decided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Held = Mapping[str, tuple[int, int]]
"""Per log the `(offset, producer id)` that ended its last round."""


def first_open(rows: DataFrame) -> dict[str, int]:
    """Returns by log the first offset of its earliest open transaction; logs without one are missing.

    Args:
        rows: from the first dirty offset on, to the end of the log.
    """
    from pyspark.sql import functions as F

    # rows without a producer id count as rows of one producer, as everywhere
    rows = rows.withColumn("pid", F.coalesce("pid", F.lit(-1).cast("long")))
    last = rows.where("control is not null").groupBy("p", "pid").agg(F.max("o").alias("decided"))
    undecided = rows.where("tx").join(last, ["p", "pid"], "left").where("decided is null or o > decided")
    firsts = undecided.groupBy("p").agg(F.min("o").alias("o")).collect()
    return {row["p"]: row["o"] for row in firsts}


PIECE_BITS = 16
"""A piece has 2**PIECE_BITS offsets, and they are compared only with the transactions that reach into the piece."""


def refuse_missing_markers(table: str, rows: DataFrame) -> None:
    """Checks that no offset is missing between a row and the abort that would take it.

    The missing row may have been a commit. Rows alone tell what was committed: if somebody deleted a marker, the rows
    of its transaction would fall to the producer's next marker. Where nobody deletes rows, offsets are missing for
    reasons that harm nothing.

    Args:
        table: the table's name, for the message.
        rows: of logs from which other writers may have deleted rows, from the first offset on that no pass has copied.

    Raises:
        UncleanableLog: an offset is missing inside a transaction that was aborted after it.
    """
    from pyspark.sql import functions as F

    aborted = decided(rows).where("outcome = 'abort'").groupBy("p", "pid", "marker").agg(F.min("o").alias("start"))
    pieces = F.sequence(F.shiftright("start", PIECE_BITS), F.shiftright("marker", PIECE_BITS))
    spans = aborted.withColumn("piece", F.explode(pieces))
    offsets = rows.select("p", "o", F.shiftright("o", PIECE_BITS).alias("piece")).distinct()
    inside = offsets.join(spans, ["p", "piece"]).where("o between start and marker")
    lacking = inside.groupBy("p", "pid", "marker", "start").count().where("count < marker - start + 1")
    broken = sorted(lacking.select("p", "start", "marker").collect())
    if broken:
        partition, start, marker = broken[0]
        reason = f"offsets are missing between {start} and the abort at {marker}, one may have been a commit"
        raise UncleanableLog(
            f"{table}: in partition {partition} {reason} that somebody deleted; write the control row again, or delete "
            f"the transaction's rows, and `hardpack resume {table} -p {partition}`.",
            tuple(dict.fromkeys(p for p, _, _ in broken)),
            reason,
        )


@dataclass(slots=True)
class Markers:
    """Per log the offsets of the markers of emptied transactions, and the transactional row that ends the round."""

    emptied: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, tuple[int, int]] = field(default_factory=dict)


def find_markers(rows: DataFrame, held: Held) -> Markers:
    """Finds the control rows below `copied_to` without a row of their transaction, and the rows that end rounds.

    Args:
        rows: of whole logs, with their bounds.
        held: see `hardpack.rules.reference.transactions.emptied_markers`.
    """
    from pyspark.sql import functions as F

    inside = rows.where("o < copied_to").select("p", "pid", "o", "tx", "control", "bound")
    ghosts = rows.sparkSession.createDataFrame(
        [(p, pid, o, True, None, None) for p, (o, pid) in held.items()],
        "p string, pid long, o long, tx boolean, control string, bound long",
    )
    met = decided(inside.unionByName(ghosts)).select("p", F.col("marker").alias("o")).distinct()
    emptied = inside.where("control is not null").join(met, ["p", "o"], "left_anti")
    ends = inside.where("tx and o = bound - 1")
    out = Markers()
    for row in (
        emptied.select("p", "o", F.lit(None).cast("long").alias("pid"))
        .unionByName(ends.select("p", "o", F.coalesce("pid", F.lit(-1).cast("long")).alias("pid")))
        .collect()
    ):
        if row["pid"] is None:
            out.emptied[row["p"]].append(row["o"])
        else:
            out.held[row["p"]] = (row["o"], row["pid"])
    return out
