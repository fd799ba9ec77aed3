"""What the gate looks at: everything, or of a large pass a sample whose cost does not grow with the table.

A sample takes all rows of some keys: from every file of the head, before and after, as there stands what supersedes,
and from a few of the clean part's, rewritten or left alone. In a new file rows may stand that come from others of the
clean part: those count as rows of their key, but not as invented. The content of rows is compared in a few of the
rewritten files. The ledger is whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from hardpack.log.horizons import Range
from hardpack.log.model import DataFile, LogView
from hardpack.log.settings import LONG_MAX
from hardpack.spark.evidence import Sample, Side, Stands

if TYPE_CHECKING:
    from hardpack.passes import Job
    from hardpack.spark.rewrite import Made

T = TypeVar("T")


@dataclass(frozen=True)
class Audit:
    """The sides to read, and which keys of them; None for all."""

    sides: Sequence[Side]
    sample: Sample | None
    looked: Mapping[str, Sequence[Range]] = field(default_factory=dict)
    """Of a sample by partition the offsets, both ends inclusive, of which all files were read."""


def audited(
    job: Job,
    tasks: Mapping[str, Any],
    removed: Collection[str],
    vectored: Collection[str],
    made: Sequence[Made],
    new: Mapping[str, Any],
) -> Audit:
    """Choose what the gate of a pass reads.

    Args:
        job: the pass; its plan's id is the seed.
        tasks: scan tasks of all files before it, by path.
        removed: paths of those that it removes, or of which it hides rows.
        vectored: of these the ones of which it hides rows.
        made: which files became which.
        new: scan tasks of the files that it wrote and of those of which it hides rows, by path.
    """
    rows = {f.path: f.rows for view in job.views for f in view.files}
    limit, shared = job.settings.audit_rows, [path for path in tasks if path not in removed]
    # rows of one offset differ in key, so that no sample by key holds them together
    if sum(rows.values()) <= limit or job.settings.column_leader_epoch:
        return Audit(
            [
                Side([tasks[p] for p in shared], "both"),
                Side([tasks[p] for p in removed], "before", wide=True),
                Side(list(new.values()), "after", wide=True),
            ],
            None,
        )
    rng = random.Random(job.report.plan)  # noqa: S311  a sample, not a secret
    looked, read = _looked(rng, job)
    written = {p for one in made for p in one.read}
    changes = [Change(one.read, tuple(str(e["file-path"]) for e in one.new)) for one in made]
    changes += [Change((p,), (p,) if p in vectored else ()) for p in removed if p not in written]
    changes = [c for c in changes if any(p in read for p in c.read)]
    # a file of which rows are only hidden is the same file before and after
    full = _few(rng, (c for c in changes if c.read != c.new), limit, lambda change: sum(rows[p] for p in change.read))
    # a change may have read far more rows than are wanted
    compared = set(_few(rng, (p for c in full for p in c.read if p in read), limit, lambda p: rows[p]))
    values = any(job.expired.values())

    def side(paths: Iterable[str], of: Mapping[str, Any], stands: Stands, wide: bool = False) -> Side:
        return Side([of[p] for p in paths], stands, wide, values)

    gone = [p for c in changes for p in c.read if p in read]
    rest = [c for c in changes if c not in full]
    return Audit(
        [
            side((p for p in shared if p in read), tasks, "both"),
            side((p for p in gone if p not in compared), tasks, "before"),
            side(compared, tasks, "before", wide=True),
            side((p for c in rest for p in c.new), new, "after"),
            side((p for c in full for p in c.new), new, "after", wide=True),
        ],
        Sample(-(-sum(rows.values()) // limit), rng.randrange(2**31)),
        looked,
    )


@dataclass(frozen=True)
class Change:
    """Paths of the files that a pass read together, and of those that it made of them."""

    read: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Files of one log whose offsets overlap, and those of no other run."""

    partition: str
    files: tuple[DataFile, ...]
    clean: bool
    """Whether nothing in them supersedes a row elsewhere."""

    @property
    def range(self) -> Range:
        """Their offsets."""
        return self.files[0].min_offset, max(f.max_offset for f in self.files)


def _looked(rng: random.Random, job: Job) -> tuple[dict[str, list[Range]], set[str]]:
    """The offsets to look at by partition, and the paths of the files there."""
    runs = [run for view in job.views for run in _runs(view)]
    # a marker decides rows in other files, so that where there are transactions all are read
    clean = {run for run in runs if run.clean and not job.settings.transactions}
    some: list[Run] = _few(rng, clean, job.settings.audit_rows, lambda run: sum(f.rows for f in run.files))
    spared = clean.difference(some)
    looked: dict[str, list[Range]] = {str(view.partition): [] for view in job.views}
    # what lies between two runs is nobody's
    for (name, away), following in groupby(runs, key=lambda run: (run.partition, run in spared)):
        near = [run.range for run in following]
        looked[name] += [] if away else [(near[0][0], near[-1][1])]
    return looked, {f.path for run in runs if run not in spared for f in run.files}


def _runs(view: LogView) -> Iterator[Run]:
    """In order of offset."""
    clean_to = min(view.state.checkpoint or 0, LONG_MAX if view.late is None else view.late)
    run: list[DataFile] = []
    end = -1
    for file in (*sorted(view.files, key=lambda f: f.min_offset), None):
        if run and (file is None or file.min_offset > end):
            yield Run(str(view.partition), tuple(run), end < clean_to)
            run = []
        if file:
            run.append(file)
            end = max(end, file.max_offset)


def _few(rng: random.Random, all_of: Iterable[T], limit: int, rows: Callable[[T], int]) -> list[T]:
    """Some of them in random order, until they have so many rows."""
    left, seen, out = sorted(all_of, key=str), 0, []
    rng.shuffle(left)
    while left and seen < limit:
        out.append(left.pop())
        seen += rows(out[-1])
    return out
