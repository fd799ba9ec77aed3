"""A bug is planted in hardpack while histories are played, until one breaks a rule that should find it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.histories.generator import generate
from tests.histories.oracle import Violation
from tests.histories.world import play

MOST, CRASH = 3000, "errors"


@dataclass(frozen=True)
class Mutant:
    """A bug that can be planted."""

    id: str
    owner: Any
    name: str
    made: Callable[[Any], Any]
    """Given the real thing, its replacement."""
    rules: tuple[str, ...]
    """The rules any of which should find it."""
    also: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = ()
    """What else is replaced, where a bug takes more than one place."""


@contextlib.contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """While this holds, hardpack has the bug."""
    with contextlib.ExitStack() as undo:
        for owner, name, made in ((mutant.owner, mutant.name, mutant.made), *mutant.also):
            real = owner.__dict__[name]
            setattr(owner, name, made(real))
            undo.callback(setattr, owner, name, real)
        yield


def breaks(seed: int) -> str:
    """The rule that the history of a seed breaks, empty when none."""
    try:
        play(generate(seed))
    except Violation as violation:
        return violation.rule
    return ""


def find(mutant: Mutant, first: int = 1, most: int = MOST) -> tuple[int, str]:
    """After how many histories the bug is found that the unplanted code does not show, and by which rule; 0: never."""
    for tried in range(1, most + 1):
        with planted(mutant):
            rule = breaks(first + tried - 1)
        if rule == CRASH and rule not in mutant.rules and breaks(first + tried - 1) != rule:
            # what is planted ends in an error of its own, and shows nothing
            raise ValueError(f"{mutant.id} does not fit the code any more: it makes history {first + tried - 1} crash")
        if rule in mutant.rules and breaks(first + tried - 1) != rule:
            return tried, rule
    return 0, ""
