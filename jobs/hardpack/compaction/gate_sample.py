"""What the gate reads: everything, or for a large pass a sample whose cost does not grow with the table.

A sample takes all rows of some keys. It reads every file of the head, before and after the pass, as the rows that
supersede others are there. Of the clean part it reads some files that the pass changed, and some that it left alone. A
new file may hold rows of files that were passed over: these count as rows of their key, but not as invented. The
content of rows is compared in a few of the rewritten files. The ledger always counts all rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from hardpack.compaction.choice import Choice
from hardpack.compaction.portions import PublishedPortion
from hardpack.compaction.staging import Staged
from hardpack.compaction.work import PassWork
from hardpack.rules.horizons import Range
from hardpack.rules.model import DataFile, LogView
from hardpack.rules.selection import first_dirty_offset
from hardpack.spark.evidence import Sample, Side, Stands
from hardpack.spark.scan_tasks import ScanTasks

T = TypeVar("T")


@dataclass(frozen=True)
class GateSample:
    """What a gate reads: the files of each side, and the sample of their keys; None for all keys."""

    sides: Sequence[Side]
    sample: Sample | None
    passed_over: Mapping[str, Sequence[Range]] = field(default_factory=dict)
    """By partition the offset ranges, both ends inclusive, from which a sample read no file."""


def key_sample(work: PassWork) -> Sample | None:
    """Returns which keys the gate of a pass looks at, None for all; the plan's id is the seed.

    Args:
        work: what the pass is to do.
    """
    rows, limit = sum(f.rows for log in work.logs for f in log.view.files), work.settings.audit_rows
    # with leader epochs, rows of one offset may differ in key, so that no sample by key holds them together
    if rows <= limit or work.columns.leader_epoch:
        return None
    return Sample(-(-rows // limit), _random(work.request.plan).randrange(2**31))


def portion_sample(choice: Choice) -> Sample | None:
    """Returns which keys the gate of one commit of a pass looks at, None for all.

    The gate of the last commit looks at all that `key_sample` returns. The gates of earlier portions share these keys:
    each chooses its own few, so that judging them all costs no more than judging the last.

    Args:
        choice: what the commit does.
    """
    sample = key_sample(choice.work)
    if sample is None or choice.is_last:
        return sample
    return Sample(choice.of, _random(f"{choice.work.request.plan}, keys of {choice.number}").randrange(2**31), sample)


def _random(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311  a sample, not a secret


def gate_sample(
    staged: Staged, new: ScanTasks, earlier: Sequence[PublishedPortion] = (), read_before: Collection[str] = ()
) -> GateSample:
    """Chooses what the gate of a pass, or of a portion of it, reads.

    The gate of the last portion reads what the gate of a single commit would. The gates of earlier portions share its
    sampled keys and its limit of rows, with at least one file each. They read the rest of what the pass read as if no
    other portion were published.

    Args:
        staged: what was written.
        new: scan tasks of the files that were written and of those in which rows are newly hidden.
        earlier: portions of the pass that are published.
        read_before: paths of files that were read before, and are not to be read again where they stay.
    """
    choice, work, tasks = staged.choice, staged.choice.work, staged.choice.inputs.tasks
    views = [log.view for log in work.logs]
    removed = dict.fromkeys([*sorted(choice.removed), *choice.hide])
    earlier = earlier if choice.is_last else ()
    gone = {path for portion in earlier for path in portion.staged.choice.removed}
    rows = {f.path: f.rows for view in views for f in view.files}
    shared = [path for path in tasks if path not in removed and path not in gone and path not in read_before]
    sample, limit = portion_sample(choice), work.settings.audit_rows
    if sample is None:
        kept = tasks.only(shared)
        for portion in earlier:
            kept |= portion.tasks
        return GateSample(
            [
                Side(kept, "both"),
                Side(tasks.only(removed), "before", wide=True),
                Side(new, "after", wide=True),
            ],
            None,
        )
    if not choice.is_last:
        limit = max(1, limit // choice.of)
    rng = _random(f"{work.request.plan}, {choice.number}")
    runs = [run for view in views for run in runs_of(view)]
    # a marker decides about rows in other files, so with transactions no run is passed over
    passed = set() if work.columns.transactions else _passed(rng, runs, removed, limit, choice.is_last)
    run_of = {f.path: run for run in runs if run not in passed for f in run.files}
    written = {p for one in staged.rewritten for p in one.old}
    swaps = [FileSwap(one.old, tuple(file.path for file in one.new)) for one in staged.rewritten]
    swaps += [FileSwap((p,), (p,) if p in choice.hide else ()) for p in removed if p not in written]
    swaps = sorted((c for c in swaps if any(p in run_of for p in c.old)), key=lambda swap: swap.old)
    # content is compared in rewritten files alone: a file in which rows are only hidden is the same before and after
    rewritten = [c for c in swaps if c.old != c.new]
    full = dict.fromkeys(few(rng, rewritten, limit, lambda swap: sum(rows[p] for p in swap.old)))
    # a swap may have read far more rows than the limit, so only some of its runs are compared; a run is compared
    # whole, as of one offset all rows have to be compared or none
    compared_of: dict[OverlappingFiles, list[str]] = {}
    for path in (p for c in full for p in c.old if p in run_of):
        compared_of.setdefault(run_of[path], []).append(path)
    some = few(rng, compared_of.values(), limit, lambda paths: sum(rows[p] for p in paths))
    compared = {p for paths in some for p in paths}
    values = any(log.expired for log in work.logs)

    def side(paths: Iterable[str], of: ScanTasks, stands: Stands, wide: bool = False) -> Side:
        return Side(of.only(paths), stands, wide, values)

    left = [p for c in swaps for p in c.old if p in run_of]
    rest = [c for c in swaps if c not in full]
    came = ScanTasks({})
    for portion in earlier:
        swapped = (one for one in portion.staged.rewritten if any(p in run_of for p in one.old))
        came |= portion.tasks.only(file.path for one in swapped for file in one.new)
    return GateSample(
        [
            side((p for p in shared if p in run_of), tasks, "both"),
            side(came, came, "both"),
            side((p for p in left if p not in compared), tasks, "before"),
            side(compared, tasks, "before", wide=True),
            side((p for c in rest for p in c.new), new, "after"),
            side((p for c in full for p in c.new), new, "after", wide=True),
        ],
        sample,
        _ranges(runs, passed),
    )


@dataclass(frozen=True)
class FileSwap:
    """Paths of the files that a pass read together, and of those that it made of them."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OverlappingFiles:
    """A run: files of one log that a chain of overlapping offsets joins, and that overlap no other file of the log."""

    partition: str
    files: tuple[DataFile, ...]
    clean: bool
    """Whether the run lies below the first dirty offset, so that no row in it supersedes a row elsewhere."""

    @property
    def rows(self) -> int:
        """The number of rows in all files of the run."""
        return sum(f.rows for f in self.files)


def runs_of(view: LogView) -> Iterator[OverlappingFiles]:
    """Yields the runs of overlapping files of a log, in order of offset."""
    clean_to = first_dirty_offset(view)
    run: list[DataFile] = []
    end = -1
    for file in (*sorted(view.files, key=lambda f: (f.min_offset, f.path)), None):
        if run and (file is None or file.min_offset > end):
            yield OverlappingFiles(view.name, tuple(run), end < clean_to)
            run = []
        if file:
            run.append(file)
            end = max(end, file.max_offset)


def _passed(
    rng: random.Random, runs: Sequence[OverlappingFiles], removed: Collection[str], limit: int, ended: bool
) -> set[OverlappingFiles]:
    """Returns the runs that the gate does not read.

    These are the clean runs, except some that the pass changed and, when it ends with this commit, some that it did
    not change.
    """
    clean = {run for run in runs if run.clean}
    hit = [run for run in runs if run.clean and any(f.path in removed for f in run.files)]
    left = [run for run in runs if run in clean.difference(hit)] if ended else []
    return clean.difference(*(few(rng, some, limit, lambda run: run.rows) for some in (hit, left)))


def _ranges(runs: Iterable[OverlappingFiles], chosen: Collection[OverlappingFiles]) -> dict[str, list[Range]]:
    """Returns the offset ranges of the chosen runs by partition; runs that follow each other make one range."""
    ranges: dict[str, list[Range]] = {run.partition: [] for run in runs}
    for (name, inside), following in groupby(runs, key=lambda run: (run.partition, run in chosen)):
        if inside:
            files = [f for run in following for f in run.files]
            ranges[name].append((files[0].min_offset, max(f.max_offset for f in files)))
    return ranges


def few(rng: random.Random, all_of: Iterable[T], limit: int, rows: Callable[[T], int]) -> list[T]:
    """Returns randomly chosen items that together have at least `limit` rows, or all items where they have fewer.

    Args:
        rng: chooses.
        all_of: the items to choose from.
        limit: number of rows at which the choice ends.
        rows: returns the number of rows of one item.
    """
    left, seen, out = list(all_of), 0, []
    rng.shuffle(left)
    while left and seen < limit:
        out.append(left.pop())
        seen += rows(out[-1])
    return out
