"""The last step of a pass or of a portion: a commit of files, states and summary; and whether one was made before."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from pyiceberg.table import Table

from hardpack.compaction.gate import GatePassed
from hardpack.compaction.gate_read import fingerprint, with_gate_read
from hardpack.compaction.ledger import Ledger
from hardpack.compaction.portions import PublishedPortion
from hardpack.compaction.report import PassReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.work import PassRequest
from hardpack.errors import Conflict
from hardpack.rules.model import LogState, SnapshotRef
from hardpack.spark.commit import CommitChange, TableAtCommit
from hardpack.table.history import PORTION_SUMMARY, commits
from hardpack.table.layout import FIELDS, OFFSETS, TOMBSTONES, bound_fields, mean_other_rows
from hardpack.table.packing import PassFolder
from hardpack.table.readers import slowest_readers
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY, STATE_PROPERTY, made_by, read_state, state_of, write_state

log = logging.getLogger(__name__)


def publish(session: TableSession, ledger: Ledger, gate: GatePassed | None = None) -> PassReport:
    """Commits what a pass has staged, or its last portion, as one swap of the table's metadata.

    Args:
        session: the table's.
        ledger: the pass's accounts.
        gate: the gate's approval; None for a pass that no gate judges.

    Raises:
        Conflict: an input file or a log's state changed meanwhile.
        CommitUnknown: the catalog did not say whether the commit went through.
    """
    work, inputs, whole = ledger.choice.work, ledger.choice.inputs, ledger.whole
    request, read_all = work.request, gate is not None and gate.whole and not ledger.earlier
    # a pass may take longer than vended credentials last; the FileIO of its input files renews them
    folder = PassFolder(inputs.files.io, inputs.files.location)
    report = request.report(
        logs=with_gate_read(ledger, session.table.format_version) if read_all else whole.logs,
        seconds=round(time.monotonic() - inputs.began, 1),
        portions=tuple(portion.snapshot.id for portion in ledger.earlier),
    )
    if ledger.earlier:
        report = report.noted(f"in {ledger.choice.of} commits, as unit.bytes is {request.commit_bytes:,}")
    fields = bound_fields(session.table, work.settings)
    summary = {
        PASS_SUMMARY: folder.kept(report.summary_json()),
        FIELDS: fields,
        STATE_PROPERTY: folder.kept(write_state(whole.states(request.commit_time()))),
    }
    snapshot = _commit(
        session, ledger, summary, lambda at_commit: {STATE_PROPERTY: _next_state(ledger, at_commit, fields)}
    )
    return report.model_copy(update={"snapshot": snapshot.id, "data_docs": gate.page if gate else ""})


def publish_portion(session: TableSession, ledger: Ledger, gate: GatePassed) -> PublishedPortion:
    """Commits a portion of a pass that is not its last one: files alone, as the states stay as they are.

    Args:
        session: the table's.
        ledger: the portion's accounts.
        gate: the gate's approval.

    Raises:
        Conflict, CommitUnknown: see `publish`.
    """
    staged, choice = ledger.staged, ledger.choice
    fields = bound_fields(session.table, choice.work.settings)

    def unchanged(at_commit: TableAtCommit) -> dict[str, str]:
        _standing(ledger, at_commit, fields)
        return {}

    tasks = staged.tasks(session.jvm)
    # the fingerprint of its files tells the portion from that of another process with the same plan
    name = f"{choice.number}/{choice.of}:{fingerprint([*choice.removed, *tasks])}"
    # nothing may fail after this commit: the caller deletes the files on failure, as if no snapshot knew of them
    portion = PublishedPortion(staged, _commit(session, ledger, {PORTION_SUMMARY: name}, unchanged), tasks)
    log.info("%s: portion %d of %d is published; %s", choice.work.name, choice.number, choice.of, gate.page)
    return portion


def _commit(
    session: TableSession,
    ledger: Ledger,
    summary: Mapping[str, str],
    properties: Callable[[TableAtCommit], dict[str, str]],
) -> SnapshotRef:
    """Commits the files of a ledger, and returns the snapshot that this makes."""
    staged, choice, work = ledger.staged, ledger.choice, ledger.choice.work
    tasks = choice.inputs.tasks
    change = CommitChange(
        remove=[tasks[path].file() for run in choice.rewrite for path in run],
        add=staged.java_files,
        properties=properties,
        summary={PLAN_SUMMARY: work.request.plan_summary, **summary},
        delete_files=staged.java_vectors,
        replaced=[delete for path in choice.hide for delete in session.jvm.lying_on(tasks[path])],
        among=work.columns.log.among(log.view.partition for log in work.logs),
        rewrites=work.settings.commit_operation == "replace",
    )
    return session.jvm.commit(work.base, change)


def _next_state(ledger: Ledger, at_commit: TableAtCommit, fields: str) -> str:
    """Returns the text of the table's state in which the pass's logs have moved on.

    Raises:
        Conflict: see `_standing`.
    """
    current = _standing(ledger, at_commit, fields)
    after = ledger.whole.states(ledger.choice.work.request.commit_time())
    return write_state({**current, **{log: made_by(state, at_commit.made) for log, state in after.items()}})


def _standing(ledger: Ledger, at_commit: TableAtCommit, fields: str) -> dict[str, LogState]:
    """Returns the states of the table's logs as they stand at the commit.

    Raises:
        Conflict: the pass no longer fits the table, or the state of one of its logs.
    """
    work, record = ledger.choice.work, ledger.choice.inputs.record
    if moved := record.why_moved(work.request.base, at_commit.ancestors):
        raise Conflict(f"{work.name}: {moved}; plan again, what was staged was not published.")
    if any(portion.snapshot.id not in at_commit.ancestors for portion in ledger.earlier):
        raise Conflict(
            f"{work.name}: somebody rolled it back behind portions of this pass; plan again, what was staged was not "
            "published."
        )
    # with another value column or rule, other rows are tombstones, and the pass has given none of them a horizon
    if mean_other_rows(fields, at_commit.properties.get(FIELDS, ""), (*OFFSETS, "key", *TOMBSTONES)):
        raise Conflict(
            f"{work.name}: partition, offset, key or value was mapped to another column meanwhile, or tombstones go by "
            "another rule; plan again, what was staged was not published."
        )
    current = read_state(work.name, at_commit.properties)
    own = {log.name for log in work.logs}
    unchanged = {log for log in current.keys() | own if record.is_unchanged(log, state_of(current, log))}
    if changed := sorted(own - unchanged):
        raise Conflict(
            f"{work.name}: another pass cleaned partition {changed[0]} meanwhile, or somebody paused or resumed it; "
            "plan again, what was staged was not published."
        )
    readers = slowest_readers(work.name, at_commit.properties, work.settings)
    if early := next((log for log in work.logs if log.name in readers and log.takes_from(readers[log.name])), None):
        raise Conflict(
            f"{work.name}: reader {readers[early.name].name} was recorded in partition {early.name} meanwhile, where "
            "tombstones have to wait for it; plan again, what was staged was not published."
        )
    return current | {log: state for log, state in record.trusted.items() if log in unchanged}


def applied_before(table: Table, request: PassRequest) -> PassReport | None:
    """Returns the report of the commit that carries this request, None when history holds none (invariant 6).

    Args:
        table: as pyiceberg loaded it.
        request: what a pass is called.
    """
    for commit in commits(table):
        if commit.plan == request.plan_summary:
            bare = PassReport(table=request.table, phase=request.phase, plan=request.plan, now=0, base=commit.parent)
            return PassReport.from_summary(commit.report or bare.summary_json(), commit.snapshot, repeated=True)
    return None
