"""What the gate looks at: everything, or of a large pass a sample whose cost does not grow with the table.

A sample takes all rows of some keys: from every file of the head, before and after, as there stands what supersedes,
and from a few of the clean part's, rewritten or left alone. The content of rows is compared in a few of the rewritten
files. The ledger is whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hardpack.log.settings import LONG_MAX
from hardpack.spark.evidence import Sample, Side

if TYPE_CHECKING:
    from hardpack.passes import Job
    from hardpack.spark.rewrite import Made

T = TypeVar("T")


@dataclass(frozen=True)
class Audit:
    """The sides to read, and which keys of them; None for all."""

    sides: Sequence[Side]
    sample: Sample | None


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
                Side([tasks[p] for p in shared], before=True, after=True),
                Side([tasks[p] for p in removed], before=True, after=False, wide=True),
                Side(list(new.values()), before=False, after=True, wide=True),
            ],
            None,
        )
    rng = random.Random(job.report.plan)  # noqa: S311  a sample, not a secret
    clean = _clean(job)

    def few(of: Iterable[Change]) -> list[Change]:
        return _few(rng, of, limit, lambda change: sum(rows[p] for p in change.read))

    written = {p for one in made for p in one.read}
    changes = [Change(one.read, tuple(str(e["file-path"]) for e in one.new)) for one in made]
    changes += [Change((p,), (p,) if p in vectored else ()) for p in removed if p not in written]
    if not job.settings.transactions:
        # a marker decides rows in other files, so that where there are transactions all are read
        shared = [*(p for p in shared if p not in clean), *_few(rng, clean & set(shared), limit, lambda p: rows[p])]
        changes = [*(c for c in changes if not c.within(clean)), *few(c for c in changes if c.within(clean))]
    # a file of which rows are only hidden is the same file before and after
    full = few(c for c in changes if c.read != c.new)
    # a change may have read far more rows than are wanted
    compared = set(_few(rng, (p for c in full for p in c.read), limit, lambda p: rows[p]))
    read = [p for c in changes for p in c.read]
    values = any(job.expired.values())

    def side(paths: Iterable[str], of: Mapping[str, Any], before: bool, after: bool, wide: bool = False) -> Side:
        return Side([of[p] for p in paths], before, after, wide, values)

    rest = [c for c in changes if c not in full]
    return Audit(
        [
            side(shared, tasks, before=True, after=True),
            side((p for p in read if p not in compared), tasks, before=True, after=False),
            side((p for p in read if p in compared), tasks, before=True, after=False, wide=True),
            side((p for c in rest for p in c.new), new, before=False, after=True),
            side((p for c in full for p in c.new), new, before=False, after=True, wide=True),
        ],
        Sample(-(-sum(rows.values()) // limit), rng.randrange(2**31)),
    )


@dataclass(frozen=True)
class Change:
    """Paths of the files that a pass read together, and of those that it made of them."""

    read: tuple[str, ...]
    new: tuple[str, ...]

    def within(self, paths: Collection[str]) -> bool:
        """Whether it read no other files."""
        return all(p in paths for p in self.read)


def _clean(job: Job) -> set[str]:
    """Files of the clean part: nothing in them supersedes a row elsewhere."""
    ends = {str(v.partition): min(v.state.checkpoint or 0, LONG_MAX if v.late is None else v.late) for v in job.views}
    return {f.path for v in job.views for f in v.files if f.max_offset < ends[str(v.partition)]}


def _few(rng: random.Random, all_of: Iterable[T], limit: int, rows: Callable[[T], int]) -> list[T]:
    """Some of them in random order, until they have so many rows."""
    left, seen, out = sorted(all_of, key=str), 0, []
    rng.shuffle(left)
    while left and seen < limit:
        out.append(left.pop())
        seen += rows(out[-1])
    return out
