"""What the gates of a pass in portions read once: keys and offsets of the files that all of them look at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardpack.compaction.choice import Choice
from hardpack.compaction.gate_sample import key_sample, portion_sample, runs_of
from hardpack.compaction.session import TableSession
from hardpack.spark.evidence import Side, keys_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class GateKeys:
    """Rows of the keys that the gates of a pass look at, as they stand before it, and the paths of their files."""

    paths: Collection[str]
    rows: DataFrame
    """Each row with the number of the portion that removes its file or hides rows of it, 0 for none."""

    def beside(self, choice: Choice) -> DataFrame:
        """Returns the rows that stand both before and after a portion, of the keys that its gate looks at.

        For an earlier portion these include the rows that other portions remove. For the last one they do not, as the
        guarantees hold once it is published.

        Args:
            choice: what the portion does.
        """
        taken = self.rows["portion"]
        if choice.is_last:
            return self.rows.where(taken == 0)
        rows, sample = self.rows.where(taken != choice.number), portion_sample(choice)
        return rows.where(sample.holds(rows["k"], rows["control"])) if sample else rows


def gate_keys(session: TableSession, portions: Sequence[Choice], hold: ExitStack) -> GateKeys | None:
    """Prepares the rows that the gates of a pass read once; returns None for a pass of one commit.

    Args:
        session: the table's.
        portions: what each commit does.
        hold: keeps the rows until the pass has ended.
    """
    from pyspark.sql import functions as F

    last = portions[-1]
    if last.of == 1:
        return None
    inputs, work, jvm = last.inputs, last.work, session.jvm
    sample = key_sample(work)
    every = sample is None or work.columns.transactions
    head = {f.path for log in work.logs for run in runs_of(log.view) if not run.clean for f in run.files}
    paths = [path for path in inputs.tasks if every or path in head]
    values = sample is None or any(log.expired for log in work.logs)
    rows = keys_of(jvm, work.columns, Side(inputs.tasks.only(paths), "both", values=values), hold, sample)
    taken = [(path, one.number) for one in portions for path in (*one.removed, *one.hide)]
    numbers = F.broadcast(jvm.spark.createDataFrame(taken, "file string, portion int"))
    numbered = rows.join(numbers, "file", "left").drop("file").fillna(0, ["portion"]).persist()
    hold.callback(numbered.unpersist)
    return GateKeys(frozenset(paths), numbered)
