"""The gate: runs the suite of guarantees on the rows before and after a pass, and refuses a pass that breaks one."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpack.clock import moment
from hardpack.compaction.data_docs import page_title, partitions
from hardpack.compaction.gate_keys import GateKeys
from hardpack.compaction.gate_sample import GateSample, gate_sample
from hardpack.compaction.ledger import Ledger
from hardpack.compaction.report import LogReport
from hardpack.compaction.session import TableSession
from hardpack.errors import GateRefused
from hardpack.rules.causes import removed_by_cause
from hardpack.spark.evidence import at_hand, evidence

if TYPE_CHECKING:
    from hardpack_expectations.checkpoint import Verdict

SUITE = "log_guarantees"


@dataclass(frozen=True)
class GatePassed:
    """The result of a gate that has agreed to a pass."""

    page: str
    """Path of the page of Data Docs that shows what the gate found."""
    whole: bool
    """Whether the gate has read every row, not a sample."""


def judge_pass(session: TableSession, ledger: Ledger, keys: GateKeys | None = None) -> GatePassed:
    """Judges the staged result of a pass, on rows that Iceberg's own reader reads.

    Args:
        session: the table's.
        ledger: what the pass claims to have done.
        keys: rows that were read for the gates of all the pass's portions, None for a pass of one commit.

    Raises:
        GateRefused: a guarantee does not hold.
    """
    jvm, staged, request = session.jvm, ledger.staged, ledger.choice.work.request
    inputs = ledger.choice.inputs
    vectors = zip(ledger.choice.hide, staged.java_vectors, strict=True)
    tasks = staged.tasks(jvm) | jvm.new_tasks(
        (inputs.data_files[path], inputs.tasks[path].file(), [vector]) for path, vector in vectors
    )
    chosen = gate_sample(staged, tasks, ledger.earlier, keys.paths if keys else ())
    with ExitStack() as hold:
        columns = ledger.choice.work.columns
        names = [entry.partition for entry in ledger.logs]
        choice = ledger.choice
        part = "" if choice.of == 1 else f", portion {choice.number} of {choice.of}"
        title = page_title(request.table, names, f"phase {request.phase} gate {request.plan}{part}")
        promises = [promise(entry, chosen, choice.is_last) for entry in ledger.logs]
        about = {
            "Pass": f"phase {request.phase}, plan {request.plan}{part}, before it was published",
            "Partitions": partitions(names),
            "Time of the pass": moment(request.now),
        }
        read_before = keys.beside(choice) if keys else None
        rows = evidence(jvm, columns, chosen.sides, hold, lineage=False, sample=chosen.sample, read_before=read_before)
        if read_before is None:
            rows = at_hand(rows, chosen.sides)
        verdict = judge(rows, request.table, title, promises, session.home, about)
    if not verdict.success:
        raise GateRefused(
            f"{request.table}: the staged result broke {', '.join(verdict.failed)}, so it was not published; "
            f"see {verdict.page} and report it with the table's metadata. Its logs are left alone until "
            f"`hardpack resume {request.table} -p LOG`.",
            verdict.broken,
            (verdict.page,),
        )
    return GatePassed(verdict.page, chosen.sample is None)


def promise(entry: LogReport, sample: GateSample | None = None, ended: bool = True) -> dict[str, Any]:
    """Returns what a pass promises about a log, in the form that the expectations take.

    Args:
        entry: what the pass claims to have done to the log.
        sample: what the gate reads, None for all. For a sample, the ledger's rows are the counts of the files.
        ended: whether the pass ends with this commit; while portions follow, rows that have to go may be left.
    """
    name, sampled = entry.name, dict[str, Any]()
    if sample and sample.sample:
        counted = [entry.rows_before, entry.rows_after]
        passed = [list(r) for r in sample.passed_over.get(name, ())]
        sampled = {"counted": counted, "share": sample.sample.whole_share, "passed": passed}
    return sampled | {
        "partition": name,
        "ended": ended,
        "bound": (entry.checkpoint_after or 0) if entry.latest_to is None else entry.latest_to,
        "copied_to": entry.copied_to if entry.copied_to is not None else entry.checkpoint_after or 0,
        "markers": entry.expired_marker,
        "log_end": entry.log_end,
        "expired": [list(r) for r in entry.expired],
        "removed": entry.removed,
        "causes": {cause.name: rows for cause, rows in removed_by_cause([entry]).items()},
    }


def load_suite_meanwhile() -> None:
    """Begins to import what `judge` needs in a thread, as this takes seconds; the caller waits for Java meanwhile."""
    beside = ThreadPoolExecutor(1)
    beside.submit(import_module, "hardpack_expectations.guarantees")
    beside.shutdown(wait=False)


def judge(
    rows: Any, table: str, title: str, promises: list[dict[str, Any]], home: Path, about: Mapping[str, str]
) -> Verdict:
    """Runs the suite on the evidence and returns its verdict; the suite is imported late, as it is heavy."""
    from hardpack_expectations.checkpoint import validate

    return validate(rows, SUITE, table, title, promises, home, about)
