"""The gate: the suite of guarantees on the rows before and after, and what a broken one is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpack.audit import Audit
from hardpack.data_docs import page_title, partitions
from hardpack.errors import GateRefused
from hardpack.home import default_home
from hardpack.lake.door import IceTable
from hardpack.log.causes import removed_by_cause
from hardpack.moments import moment
from hardpack.report import LogReport
from hardpack.spark.evidence import evidence

if TYPE_CHECKING:
    from hardpack_expectations.checkpoint import Verdict

    from hardpack.passes import Job

SUITE = "log_guarantees"


def pass_gate(table: IceTable, job: Job, logs: Sequence[LogReport], audit: Audit) -> Verdict:
    """Judge the staged result of a pass.

    Args:
        table: the table's door.
        job: the pass.
        logs: what it claims to have done.
        audit: the files to read, and which of their rows.

    Raises:
        GateRefused: a guarantee does not hold.
    """
    with ExitStack() as hold:
        rows = evidence(table, job.settings, audit.sides, hold, published=False, sample=audit.sample)
        title = page_title(job.report.table, logs, f"phase {job.report.phase} gate {job.report.plan}")
        promises = [promise(entry, audit) for entry in logs]
        about = {
            "Pass": f"phase {job.report.phase}, plan {job.report.plan}, before it was published",
            "Partitions": partitions(logs),
            "Time of the pass": moment(job.report.now),
        }
        verdict = judge(rows, job.report.table, title, promises, job.home, about)
    if not verdict.success:
        raise GateRefused(
            f"{job.report.table}: the staged result broke {', '.join(verdict.failed)}, so nothing was published; "
            f"see {verdict.page} and report it with the table's metadata. Its logs are left alone until "
            f"`hardpack resume {job.report.table}`.",
            verdict.broken,
            (verdict.page,),
        )
    return verdict


def promise(entry: LogReport, audit: Audit | None = None) -> dict[str, Any]:
    """What a pass promises of a log, as the expectations take it; for a sample the files' counts make the ledger."""
    name, sampled = str(entry.partition), dict[str, Any]()
    if audit and audit.sample:
        counted = [entry.rows_before, entry.rows_after]
        passed = [list(r) for r in audit.passed.get(name, ())]
        sampled = {"counted": counted, "share": audit.sample.share, "passed": passed}
    return sampled | {
        "partition": name,
        "bound": (entry.checkpoint_after or 0) if entry.latest_to is None else entry.latest_to,
        "copied_to": entry.copied_to if entry.copied_to is not None else entry.checkpoint_after or 0,
        "markers": entry.expired_marker,
        "log_end": entry.log_end,
        "expired": [list(r) for r in entry.expired],
        "removed": entry.removed,
        "causes": {cause.name: rows for cause, rows in removed_by_cause([entry]).items()},
    }


def load_suite() -> None:
    """Import what `judge` needs, which takes seconds."""
    import hardpack_expectations.guarantees  # noqa: F401  brings Great Expectations with it


def judge(
    rows: Any, table: str, title: str, promises: list[dict[str, Any]], home: Path | None, about: Mapping[str, str]
) -> Verdict:
    """Run the suite on the evidence; imported late, as it is heavy."""
    from hardpack_expectations.checkpoint import validate

    return validate(rows, SUITE, table, title, promises, home or default_home(), about)
