"""A pass, step by step: it begins with the work to do as a value, and each step hands a value to the next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from hardpack import faults
from hardpack.compaction.choice import Choice, choose
from hardpack.compaction.dead_rows import find_dead_rows
from hardpack.compaction.gate import GatePassed, judge_pass
from hardpack.compaction.gate_keys import GateKeys, gate_keys
from hardpack.compaction.inputs import read_inputs
from hardpack.compaction.ledger import Ledger, expected, ledger_of
from hardpack.compaction.portions import PublishedPortion, portions
from hardpack.compaction.publish import publish, publish_portion
from hardpack.compaction.report import PassReport
from hardpack.compaction.session import TableSession
from hardpack.compaction.staging import discarded_on_failure, write
from hardpack.compaction.work import PassWork

T = TypeVar("T")


def run_pass(session: TableSession, work: PassWork) -> PassReport:
    """Runs a pass, as one commit or in portions; nothing is published before the gate has agreed.

    Args:
        session: the table's.
        work: what the pass is to do.

    Raises:
        UncleanableLog: a log's rows cannot be cleaned; what was staged was not published.
        GateRefused: a guarantee does not hold on the staged result.
        Conflict: an input file or a log's state changed meanwhile.
    """
    faults.reach("begun")
    inputs = read_inputs(session, work)
    dead = find_dead_rows(session, inputs)
    faults.reach("dead rows found")
    *early, last = choices = portions(choose(inputs, dead))
    earlier: tuple[PublishedPortion, ...] = ()
    with ExitStack() as hold:
        keys = gate_keys(session, choices, hold)
        for portion in early:
            earlier = (*earlier, _in_one_commit(session, portion, earlier, keys, publish_portion))
        return _in_one_commit(session, last, earlier, keys, publish)


def _in_one_commit(
    session: TableSession,
    choice: Choice,
    earlier: tuple[PublishedPortion, ...],
    keys: GateKeys | None,
    commit: Callable[[TableSession, Ledger, GatePassed], T],
) -> T:
    staged = write(session, choice)
    with discarded_on_failure(choice.inputs.files, (file.path for file in (*staged.new, *staged.vectors))):
        ledger = ledger_of(staged, earlier)
        passed = judge_pass(session, ledger, keys)
        faults.reach("gate passed")
        published = commit(session, ledger, passed)
    faults.reach("committed")
    return published


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
