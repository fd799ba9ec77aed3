"""The staged files of a pass: new data files and deletes are written. No snapshot knows of them yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardpack import faults
from hardpack.compaction.choice import Choice
from hardpack.compaction.session import TableSession
from hardpack.errors import CommitUnknown
from hardpack.files.content_file import ContentFile
from hardpack.files.data_files import DataFiles
from hardpack.files.row_deletes import write_positions
from hardpack.spark.rewrite import RewriteInput, Rewritten, rewrite
from hardpack.spark.scan_tasks import ScanTasks

if TYPE_CHECKING:
    from hardpack.spark.jvm_table import JvmTable


@dataclass(frozen=True)
class Staged:
    """What a pass, or a portion of it, has written."""

    choice: Choice
    rewritten: Sequence[Rewritten]
    """Which old files became which new ones."""
    vectors: Sequence[ContentFile] = ()
    """New delete files, one for each file of `choice.hide`, in its order."""
    java_files: Sequence[Any] = ()
    """The new data files as the JVM has them, in the order of `new`."""
    java_vectors: Sequence[Any] = ()
    """The new delete files as the JVM has them."""

    @property
    def new(self) -> list[ContentFile]:
        """The new data files."""
        return [file for one in self.rewritten for file in one.new]

    def tasks(self, jvm: JvmTable) -> ScanTasks:
        """Returns scan tasks of the new data files."""
        return jvm.new_tasks((file, java, ()) for file, java in zip(self.new, self.java_files, strict=True))

    @property
    def new_by_log(self) -> dict[str, list[ContentFile]]:
        """The new data files of each log, by log; a log without new files has an empty list."""
        log_of = {file.path: log.name for log in self.choice.work.logs for file in log.view.files}
        by_log = defaultdict[str, list[ContentFile]](list)
        for one in self.rewritten:
            # files that became one are of one log
            by_log[log_of[one.old[0]]] += one.new
        return by_log


def write(session: TableSession, choice: Choice) -> Staged:
    """Writes the new data files and deletes that the choice asks for.

    If that fails, nothing stays behind but files of Spark tasks that had finished. These are orphans, which maintenance
    removes.

    Args:
        session: the table's.
        choice: what becomes of each file.
    """
    files, work, data_files = choice.inputs.files, choice.work, choice.inputs.data_files
    groups = [_living(choice, run) for run in choice.rewrite]
    rewritten = rewrite(session.jvm.spark, files, groups, work.columns.offset, work.settings.segment_bytes)
    written = [file.path for one in rewritten for file in one.new]
    with discarded_on_failure(files, written):
        faults.reach("rewritten")
        vectors = write_positions(files, choice.hide, data_files)
        written += [file.path for file in vectors]
        if vectors:
            faults.reach("vectors written")
        java_files = [session.jvm.java_file(file) for one in rewritten for file in one.new]
        return Staged(choice, rewritten, vectors, java_files, [session.jvm.java_file(file) for file in vectors])


@contextmanager
def discarded_on_failure(files: DataFiles, paths: Iterable[str]) -> Iterator[None]:
    """Deletes written files when an error occurs inside this context, unless they may be the table's by now."""
    try:
        yield
    except CommitUnknown:
        # the files may be the table's; if not, orphan removal takes them
        raise
    except Exception:
        files.discard(paths)
        raise


def _living(choice: Choice, run: Iterable[str]) -> list[RewriteInput]:
    """Returns the files of a run that have a row to copy."""
    data_files = choice.inputs.data_files
    left = filter(choice.leaves_a_row, run)
    return [RewriteInput(data_files[path], choice.skipped(path).serialize()) for path in left]
