"""Makes a failing history small: fewer steps, then simpler arguments, as long as the same rule breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.histories.steps import Step

MOST_RUNS = 600


def shrink(steps: list[Step], breaks: Callable[[list[Step]], bool]) -> list[Step]:
    """The smallest history found for which `breaks` still holds.

    Args:
        steps: for which it holds.
        breaks: whether a history breaks the same rule.
    """
    left = [MOST_RUNS]

    def tried(candidate: list[Step]) -> bool:
        left[0] -= 1
        return left[0] >= 0 and breaks(candidate)

    before: list[Step] = []
    while steps != before and left[0] > 0:
        before = steps
        steps = _fewer(steps, tried)
        steps = _simpler(steps, tried)
    return steps


def _fewer(steps: list[Step], breaks: Callable[[list[Step]], bool]) -> list[Step]:
    """Delta debugging: runs of steps are left out, ever shorter ones."""
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            candidate = steps[:at] + steps[at + size :]
            if candidate and breaks(candidate):
                steps = candidate
            else:
                at += size
        size //= 2
    return steps


def _simpler(steps: list[Step], breaks: Callable[[list[Step]], bool]) -> list[Step]:
    for at in range(len(steps)):
        changed = True
        while changed:
            changed = False
            for args in _smaller(steps[at].args):
                candidate = [*steps[:at], Step(steps[at].kind, args), *steps[at + 1 :]]
                if breaks(candidate):
                    steps, changed = candidate, True
                    break
    return steps


def _smaller(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments with one thing left out."""
    for name, value in args.items():
        if isinstance(value, dict):
            for key in value.keys() - {"cleanup.policy"}:
                yield {**args, name: {k: v for k, v in value.items() if k != key}}
            for key, inner in value.items():
                if isinstance(inner, list):
                    for at in range(len(inner)):
                        shorter = inner[:at] + inner[at + 1 :]
                        yield {**args, name: {**value, key: shorter}}
        elif isinstance(value, list) and len(value) > 1 and name == "rows":
            for at in range(len(value)):
                yield {**args, name: value[:at] + value[at + 1 :]}
        elif value is True:
            yield {**args, name: False}
