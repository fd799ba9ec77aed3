"""The portions of a pass: what each of its commits takes, where one commit would be too large.

Kafka's cleaner puts each group of segments in place as soon as it is clean, and writes its checkpoint when all are
(Cleaner.doClean). So does a large pass: a portion takes dead rows out and leaves every state as it was; the last one
moves the states. A pass that dies in between has lost no more than the portion that it was at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardpack.compaction.choice import Choice
from hardpack.compaction.dead_rows import DeadRows
from hardpack.compaction.staging import Staged
from hardpack.rules.grouping import in_packs
from hardpack.rules.model import SnapshotRef
from hardpack.spark.scan_tasks import ScanTasks


@dataclass(frozen=True)
class PublishedPortion:
    """A published portion of a pass."""

    staged: Staged
    snapshot: SnapshotRef
    """The snapshot that the portion made."""
    tasks: ScanTasks
    """Scan tasks of the files that it put into the table."""


def portions(choice: Choice) -> list[Choice]:
    """Returns what each commit of a pass takes, in the order of the commits; most passes have one.

    A portion consists of whole runs of files. The last portion has all new deletion vectors, which are small, and all
    files without a living row: if a pass died after these had left, a log that shows no row would count as a new one.
    With leader epochs, rows of one offset may differ in key, so that no gate can judge some of them alone: the pass is
    one commit then.

    Args:
        choice: what the whole pass does.
    """
    limit, sizes = choice.work.request.commit_bytes, choice.inputs.data_files
    if limit is None or choice.work.columns.leader_epoch:
        return [choice]
    living, emptied = list[Sequence[str]](), list[Sequence[str]]()
    for run in choice.rewrite:
        (living if any(map(choice.leaves_a_row, run)) else emptied).append(run)
    packs = in_packs(living, lambda run: sum(sizes[path].bytes for path in run), limit)
    if len(packs) < 2:
        return [choice]
    packs[-1] += emptied
    return [_portion(choice, pack, number, len(packs)) for number, pack in enumerate(packs, 1)]


def _portion(choice: Choice, runs: Sequence[Sequence[str]], number: int, of: int) -> Choice:
    hide = choice.hide if number == of else {}
    paths = {*hide, *(path for run in runs for path in run)}
    dead = {path: rows for path, rows in choice.dead.files.items() if path in paths}
    return Choice(choice.inputs, DeadRows(dead, choice.dead.facts), hide, runs, number, of)


def together(earlier: Sequence[PublishedPortion], last: Staged) -> Staged:
    """Returns what a whole pass has written, in all of its portions.

    Args:
        earlier: its portions that are published.
        last: its last portion, which is not published yet.
    """
    parts = [*(portion.staged for portion in earlier), last]
    inputs, facts = last.choice.inputs, last.choice.dead.facts
    seen = inputs.seen._replace(further=tuple(portion.snapshot.sequence_number for portion in earlier))
    dead = {path: rows for part in parts for path, rows in part.choice.dead.files.items()}
    rewrite = [run for part in parts for run in part.choice.rewrite]
    choice = Choice(replace(inputs, seen=seen), DeadRows(dead, facts), last.choice.hide, rewrite)
    return Staged(
        choice,
        [one for part in parts for one in part.rewritten],
        last.vectors,
        [java for part in parts for java in part.java_files],
        last.java_vectors,
    )
