"""The choice of a pass: what becomes of each data file. Pure: nothing is read and nothing is written."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyroaring import BitMap

from hardpack.compaction.dead_rows import DeadRows
from hardpack.compaction.inputs import Inputs
from hardpack.compaction.work import PassWork
from hardpack.rules.deletion_vectors import stays_under_vector
from hardpack.rules.grouping import files_to_rewrite

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """What a pass does with data files; files that neither `hide` nor `rewrite` names are left as they are."""

    inputs: Inputs
    dead: DeadRows
    hide: Mapping[str, BitMap]
    """Files that stay, with all positions that their new deletion vectors or position deletes name."""
    rewrite: Sequence[Sequence[str]]
    """Paths of files that leave, in runs. The living rows of a run become one new file; without any, none is made."""
    number: int = 1
    """Which of the pass's `of` commits this is, from 1; see `hardpack.compaction.portions`."""
    of: int = 1

    @property
    def work(self) -> PassWork:
        """What the pass is to do."""
        return self.inputs.work

    @property
    def is_last(self) -> bool:
        """Whether the pass ends with this commit, and its guarantees hold from then on."""
        return self.number == self.of

    @cached_property
    def removed(self) -> frozenset[str]:
        """Paths of the files that leave the table."""
        return frozenset(path for run in self.rewrite for path in run)

    def leaves_a_row(self, path: str) -> bool:
        """Returns whether a file has a row that a rewrite copies."""
        return len(self.skipped(path)) < self.inputs.data_files[path].rows

    def skipped(self, path: str) -> BitMap:
        """Returns the positions of a file that a rewrite leaves out."""
        return self.dead.files[path].skipped if path in self.dead.files else BitMap()


def choose(inputs: Inputs, dead: DeadRows) -> Choice:
    """Chooses for each file with a dead row: rewrite it, hide the rows, or drop it whole.

    Args:
        inputs: what the pass works on.
        dead: the dead rows.
    """
    hide = _hidden(inputs, dead)
    sizes = {path: inputs.data_files[path] for path in dead.files}
    left = {
        path: file.bytes * (file.rows - len(dead.files[path].skipped)) // file.rows
        for path, file in sizes.items()
        if path not in hide
    }
    fixed = {*hide, *inputs.deletes}
    runs = [run for one in inputs.work.logs for run in files_to_rewrite(one.groups, left, fixed)]
    log.info("%s: %d files hold rows to drop, %d of them stay", inputs.work.name, len(dead.files), len(hide))
    return Choice(inputs, dead, hide, [[file.path for file in run] for run in runs])


def _hidden(inputs: Inputs, dead: DeadRows) -> dict[str, BitMap]:
    if not inputs.files.merge_on_read:
        return {}
    # a delete file that lies on several data files cannot be replaced with one for this file alone
    fit = {p: rows for p, rows in dead.files.items() if all(d.on_one_file for d in inputs.deletes.get(p, ()))}
    return {
        path: rows.skipped
        for path, rows in fit.items()
        if stays_under_vector(
            inputs.data_files[path].rows,
            inputs.data_files[path].bytes,
            len(rows.skipped),
            rows.must_leave_storage,
            inputs.work.settings,
        )
    }
