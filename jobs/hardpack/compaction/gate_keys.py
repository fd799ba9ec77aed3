"""What the gates of a pass in portions read once: keys and offsets of the files that all of them look at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardpack.compaction.choice import Choice
from hardpack.compaction.gate_sample import key_sample, runs_of
from hardpack.compaction.session import TableSession
from hardpack.spark.evidence import Side, keys_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class GateKeys:
    """Rows of files as they stand before a pass, of the keys that its gates look at."""

    paths: Collection[str]
    leaving: DataFrame | None
    """Of files that portions before the last one take."""
    last_leaving: DataFrame | None
    """Of files that the last one takes, or of which it hides rows."""
    staying: DataFrame | None

    def beside(self, choice: Choice) -> list[DataFrame]:
        """Returns the rows that stand before and after a portion.

        What earlier ones took away stands there too, but for the last one, after which the guarantees hold.

        Args:
            choice: of the portion.
        """
        from pyspark.sql import functions as F

        if choice.is_last:
            return [self.staying] if self.staying else []
        left = self.leaving and self.leaving.where(~F.col("file").isin([*choice.removed]))
        return [rows for rows in (left, self.last_leaving, self.staying) if rows]


def gate_keys(session: TableSession, portions: Sequence[Choice], hold: ExitStack) -> GateKeys | None:
    """Prepares what the gates of a pass read once; None where it ends with one commit.

    Args:
        session: the table's.
        portions: what each commit takes.
        hold: keeps the rows until the pass has ended.
    """
    *early, last = portions
    if not early:
        return None
    inputs, work = last.inputs, last.work
    sample = key_sample(work)
    every = sample is None or work.columns.transactions
    head = {f.path for log in work.logs for run in runs_of(log.view) if not run.clean for f in run.files}
    paths = [path for path in inputs.tasks if every or path in head]
    leaving = {path for choice in early for path in choice.removed}
    last_leaving = {*last.removed, *last.hide}
    values = any(log.expired for log in work.logs)

    def rows(of: Sequence[str]) -> DataFrame | None:
        side = Side([inputs.tasks[path] for path in of], "both", values=values or sample is None)
        return keys_of(session.jvm, work.columns, side, hold, sample) if of else None

    return GateKeys(
        frozenset(paths),
        rows([path for path in paths if path in leaving]),
        rows([path for path in paths if path in last_leaving]),
        rows([path for path in paths if path not in leaving and path not in last_leaving]),
    )
