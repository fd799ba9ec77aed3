"""A record as the rules on rows see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Control = Literal["commit", "abort"]


@dataclass(frozen=True, slots=True)
class Row:
    """A record. `value` None is a tombstone, `key` None a keyless row; times in ms, sizes in bytes."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    bytes: int = 1
    producer: int | None = None
    transactional: bool = False
    control: Control | None = None
    """Set in a control row, which ends its producer's transaction."""
    batch: int | None = None
    """First offset of its batch; None: a batch of its own."""
