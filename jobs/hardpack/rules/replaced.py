"""State of a log whose rows were all replaced: it starts anew, and remembers what a rollback to the old rows needs.

Kafka has no such thing: nobody goes back to a topic that was deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from hardpack.rules.model import LogState, Replaced, SeenCommits

MOST_REPLACED = 8
"""Most times that a log remembers having started anew; the oldest two are then merged into one, on the safe side."""


def started_anew(state: LogState, by: int) -> LogState:
    """Returns the state of a log of which all rows were replaced.

    It is the state of a log that was never cleaned, but pauses and marks stay, and so does what a rollback to the old
    rows needs.

    Args:
        state: of the log with its old rows.
        by: sequence number of a commit by which they were replaced.
    """
    replaced = state.replaced
    if state.expired_to >= 0:
        replaced = (*replaced, Replaced(by, state.expired_to, state.seen_commits))
    if len(replaced) > MOST_REPLACED:
        first, second, *others = replaced
        read = SeenCommits(min(first.seen.read, second.seen.read))
        replaced = (Replaced(second.by, max(first.expired_to, second.expired_to), read), *others)
    return LogState(paused=state.paused, uncleanable=state.uncleanable, replaced=replaced)


def untold(undone: LogState, is_undone: Callable[[int], bool]) -> LogState:
    """Returns the state of a log after a rollback that leaves no snapshot which tells of its passes.

    It keeps the greatest removed tombstone and the seen commits that the undone pass recorded. A rollback to before all
    rows were replaced takes those that were recorded then. Sequence numbers only rise, so seen commits are told apart
    from commits that came beside the passes and since.

    Args:
        undone: the state that the undone pass left.
        is_undone: returns whether the commit of a sequence number is not in the table's past.
    """
    kept = tuple(takewhile(lambda one: not is_undone(one.by), undone.replaced))
    if len(kept) < len(undone.replaced):
        before = undone.replaced[len(kept)]
        return LogState(expired_to=before.expired_to, seen=before.seen, replaced=kept)
    return LogState(expired_to=undone.expired_to, seen=undone.seen_commits, replaced=kept)


def within_reach(state: LogState, oldest: int) -> LogState:
    """Returns the state without what it remembers of replaced rows that no rollback can bring back any more.

    Args:
        state: of the log.
        oldest: sequence number of the table's oldest snapshot.
    """
    kept = tuple(one for one in state.replaced if one.by > oldest)
    return state if kept == state.replaced else replace(state, replaced=kept)
