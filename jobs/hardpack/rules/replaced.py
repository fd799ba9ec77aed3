"""A log whose rows were all replaced starts anew, and remembers what somebody who goes back to the old ones must know.

Kafka has no such thing: nobody goes back to a topic that was deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from hardpack.rules.model import LogState, Replaced, SeenCommits

MOST_REPLACED = 8
"""How often a log remembers to have started anew; what is older becomes one with the next, on the safe side."""


def started_anew(state: LogState, by: int) -> LogState:
    """Returns the state of a log of which all rows were replaced.

    It is that of a log never cleaned, but for what people said of it, and for what its old rows need.

    Args:
        state: the one that the old rows had.
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
    """Returns the state of a log of whose passes nobody tells any more, from that of a pass which was undone.

    Sequence numbers only rise, so what passes had seen is told apart from what came beside them and since.

    Args:
        undone: the state that the pass left.
        is_undone: whether a commit, by its sequence number, is not in the table's past.
    """
    kept = tuple(takewhile(lambda one: not is_undone(one.by), undone.replaced))
    if len(kept) < len(undone.replaced):
        before = undone.replaced[len(kept)]
        return LogState(expired_to=before.expired_to, seen=before.seen, replaced=kept)
    return LogState(expired_to=undone.expired_to, seen=undone.seen_commits, replaced=kept)


def within_reach(state: LogState, oldest: int) -> LogState:
    """Returns the state without what was remembered of rows to which nobody can go back any more.

    Args:
        state: of the log.
        oldest: sequence number of the table's oldest snapshot.
    """
    kept = tuple(one for one in state.replaced if one.by > oldest)
    return state if kept == state.replaced else replace(state, replaced=kept)
