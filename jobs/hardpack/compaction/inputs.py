"""The inputs of a pass: what lies in the table before it decides anything."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from hardpack.compaction.session import TableSession
from hardpack.compaction.work import PassWork
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.rules.model import SeenCommits
from hardpack.spark.causes.dead_positions import deleted_rows
from hardpack.spark.scan_tasks import ScanTasks
from hardpack.table.history import Record
from hardpack.table.state import seen_by_reading


@dataclass(frozen=True)
class Inputs:
    """What a pass works on. The keys of each mapping are paths of the logs' data files."""

    work: PassWork
    files: DataFiles
    """Reads and writes the table's files."""
    tasks: ScanTasks
    data_files: Mapping[str, ContentFile]
    deletes: Mapping[str, Sequence[ContentFile]]
    """The delete files that lie on a data file; data files on which none lies are missing."""
    deleted: Mapping[str, BitMap]
    """The positions that these delete files name in a data file."""
    record: Record
    """The states of all logs. Those of the pass's own logs must still stand when it commits."""
    seen: SeenCommits
    began: float
    """When the pass began, by `time.monotonic`."""


def read_inputs(session: TableSession, work: PassWork) -> Inputs:
    """Reads which files the logs have, which rows of them were deleted before, and what the states say.

    Args:
        session: the table's.
        work: what the pass is to do; the pass reads rows.
    """
    began, jvm, files = time.monotonic(), session.jvm, session.data_files(work.settings)
    own = {file.path: file.data_sequence_number for log in work.logs for file in log.view.files}
    # a file without bounds may be of any log, as far as Iceberg's scan can tell
    tasks = jvm.scan_tasks(work.base, work.columns.log.among(log.view.partition for log in work.logs), own)
    flagged = (f.path for log in work.logs for f in log.view.files if f.row_deletes)
    deletes = {path: lying for path in flagged if (lying := jvm.deletes(tasks[path]))}
    data_files = tasks.data_files(own)
    deleted = {}
    if deletes and work.rows:
        deleted = deleted_rows(files, deletes, {path: data_files[path].rows for path in deletes}, work.rows.all)
    return Inputs(
        work, files, tasks, data_files, deletes, deleted, Record.of(session.table),
        seen_by_reading(session.table, work.base), began,
    )  # fmt: skip
