"""What the oracle keeps: the rows of snapshots, promises along the line of snapshots, and what hardpack says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONG_MAX = 2**63 - 1


class Violation(AssertionError):
    """A promise that was broken: the rule's short name and one sentence."""

    def __init__(self, rule: str, sentence: str) -> None:
        super().__init__(f"{rule}: {sentence}")
        self.rule = rule


def must(holds: Any, rule: str, sentence: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise Violation(rule, sentence)


@dataclass
class Rows:
    """The rows that a snapshot shows, by name, with the file of each and the files' sizes."""

    of: dict[int, Any]
    file: dict[int, str]
    sizes: dict[str, int]
    logs: dict[int, list[Any]] = field(default_factory=dict)
    waiting: dict[int, Any] = field(default_factory=dict)
    """Rows in files of several logs, which are in none of them before they are split."""

    @property
    def shown(self) -> dict[int, Any]:
        """All rows that a reader sees."""
        return self.of | self.waiting

    def __post_init__(self) -> None:
        for row in self.of.values():
            self.logs.setdefault(row.log, []).append(row)

    def log(self, log: int) -> list[Any]:
        return self.logs.get(log, [])

    def newest(self, log: int) -> str:
        """The file with the greatest offset of a log; of several the one that begins last."""
        spans: dict[str, tuple[int, int]] = {}
        for row in self.log(log):
            high, low = spans.get(self.file[row.rid], (row.offset, row.offset))
            spans[self.file[row.rid]] = max(high, row.offset), min(low, row.offset)
        return max(spans, key=lambda path: (*spans[path], path))


@dataclass(frozen=True)
class Line:
    """What was promised of one log up to a snapshot."""

    floor: int | None = None
    """The greatest checkpoint shown."""
    seen: frozenset[int] = frozenset()
    """Rows that a phase one took into account."""
    tombs: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By tombstone that a phase one covered the time before which it may not go, and the time of that pass."""
    covered: Mapping[tuple[int, Any], tuple[int, int]] = field(default_factory=dict)
    """What `tombs` says, by offset and key: one that is delivered again is the same."""
    undone: frozenset[int] = frozenset()
    """Tombstones of which the pass that covered them was undone or can no longer be known."""
    horizons: Mapping[int, int] = field(default_factory=dict)
    """By tombstone its horizon as the state first gave it."""
    loose: frozenset[int] = frozenset()
    """Tombstones that were delivered again, or stand in files that others wrote anew, perhaps with other rows: their
    horizon may be set once more."""
    untold: bool = False
    """Whether the snapshot that its last pass worked from has expired: what others rewrite then is not told by row."""
    bounded: bool = False
    """Whether its last pass had an offset map of a given size, so that it may have ended inside a segment."""
    gone: Mapping[str, int] = field(default_factory=dict)
    """By key the offset of its removed tombstone."""
    mixed: bool = False
    """Whether others may have put late rows into files of other rows since its last pass, as far as metadata tells."""
    rewritten: frozenset[int] = frozenset()
    """Rows in files that others wrote since its last pass, by a commit that does not say that it changes no row."""
    updated: frozenset[int] = frozenset()
    """Rows that others gave another key or value in place: what a key is by an UPDATE is its author's will."""


@dataclass(frozen=True)
class Pass:
    """A commit of hardpack's: what it worked from and by which settings."""

    snapshot: int
    parent: int | None
    base: int
    phase: str
    clock: int
    """When it was committed, as hardpack's machine has it."""
    settings: Mapping[str, Any]
    checkpoints: Mapping[int, int]
    """By log the checkpoint that the pass says it reached."""
    time: int
    """What the pass takes for now, which a forced plan may set ahead of the clock."""
    copied: Mapping[int, int]
    """By log the end of the segments it copied, whose tombstones have their horizon from it."""
    read_to: Mapping[int, int] = field(default_factory=dict)
    """By log the least offset at which one of its named readers goes on."""


@dataclass
class Said:
    """What hardpack says of one log."""

    checkpoint: int | None
    first_dirty: int
    due: bool
    reason: str
    expired_to: int
    uncleanable: bool
    held: bool
    stuck: bool
    horizons: list[tuple[int, int]]
    waiting: bool
    """Whether rows wait in files of several logs, so that nobody can tell whether all that it had were replaced."""

    def horizon(self, offset: int) -> int | None:
        return next((ms for up_to, ms in self.horizons if offset <= up_to), None)

    @property
    def refused(self) -> bool:
        return self.stuck or self.uncleanable or self.reason.startswith(("refused", "uncleanable"))
