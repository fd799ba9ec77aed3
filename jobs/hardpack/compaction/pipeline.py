"""A pass, step by step. What it is to do comes in as a value, and each step hands a value to the next."""

from __future__ import annotations

from dataclasses import replace

from hardpack import faults
from hardpack.compaction.choice import choose
from hardpack.compaction.dead_rows import find_dead_rows
from hardpack.compaction.gate import judge_pass
from hardpack.compaction.inputs import read_inputs
from hardpack.compaction.ledger import balance, expected
from hardpack.compaction.publish import publish
from hardpack.compaction.report import PassReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.staging import discarded_on_failure, write
from hardpack.compaction.work import PassWork


def run(session: TableSession, work: PassWork) -> PassReport:
    """Runs a pass; nothing is published before the gate has agreed.

    Args:
        session: the table's.
        work: what the pass is to do.

    Raises:
        UncleanableLog: a log's rows cannot be cleaned; nothing was published.
        GateRefused: a guarantee does not hold on the staged result.
        Conflict: an input file or a log's state changed meanwhile.
    """
    faults.reach("begun")
    inputs = read_inputs(session, work)
    dead = find_dead_rows(session, inputs)
    faults.reach("dead rows found")
    choice = choose(inputs, dead)
    staged = write(session, choice)
    with discarded_on_failure(inputs.files, (file.path for file in (*staged.new, *staged.vectors))):
        ledger = balance(staged)
        passed = judge_pass(session, ledger)
        faults.reach("gate passed")
        report = publish(session, ledger, passed)
    faults.reach("committed")
    return report


def preview(session: TableSession, work: PassWork) -> PassReport:
    """Runs the steps of a pass that change nothing, and reports what it would do.

    Args:
        session: the table's.
        work: what the pass is to do.

    Raises:
        UncleanableLog: a log's rows cannot be cleaned.
    """
    inputs = read_inputs(session, replace(work, dry_run=True))
    dead = find_dead_rows(session, inputs)
    choice = choose(inputs, dead)
    return work.request.report(logs=expected(choice))
