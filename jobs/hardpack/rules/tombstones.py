"""What makes a row a tombstone: a closed grammar, with one meaning in metadata, in Arrow, in Spark and for the gate.

`null`: the value is null, as in Kafka. `none`: there are no tombstones, as where a sink passes over them.
`COLUMN=V` or `COLUMN=V|W`: the column's text is one of these. `COLUMN empty`: its text or bytes are empty.
A null matches none of the last two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EMPTY = " empty"
NULL = "null"
"""The rule that is in force where no other is set."""


@dataclass(frozen=True, slots=True)
class TombstoneRule:
    """One sentence of the grammar."""

    kind: Literal["null", "none", "equals", "empty"] = "null"
    column: str = ""
    """The column that the rule names. `null` names none, and goes by the mapped value column."""
    values: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentence."""
        if self.kind == "equals":
            return f"{self.column}={'|'.join(self.values)}"
        return self.column + EMPTY if self.kind == "empty" else self.kind

    def count(self, rows: int, nulls: int | None, low: str | bytes | None, high: str | bytes | None) -> int | None:
        """Returns how many rows of a data file are tombstones, as far as its metadata tells; None where it does not.

        Args:
            rows: of the file.
            nulls: rows in which the column is null, None where they are not counted.
            low: a lower bound of the column, as text or bytes; None where there is none.
            high: an upper bound.
        """
        if self.kind == "null":
            return nulls
        if self.kind == "none" or nulls == rows:
            return 0
        if low is None or high is None:
            return None
        match = len(low) == 0 if self.kind == "empty" else low in self.values
        if low == high:
            # equal bounds leave one value, which all rows without a null have
            return 0 if not match else None if nulls is None else rows - nulls
        # nothing is less than the empty value: a lower bound that is not empty rules it out
        return 0 if self.kind == "empty" and not match else None


def tombstone_rule(text: str) -> TombstoneRule:
    """Reads a sentence of the grammar.

    Args:
        text: `null`, `none`, `COLUMN=V|W` or `COLUMN empty`.

    Raises:
        ValueError: it is none of these.
    """
    if text in ("null", "none"):
        return TombstoneRule("null" if text == "null" else "none")
    if text.endswith(EMPTY) and (column := text.removesuffix(EMPTY).strip()):
        return TombstoneRule("empty", column)
    column, equals, values = text.partition("=")
    deleting = tuple(value.strip() for value in values.split("|"))
    if not (column.strip() and equals and all(deleting)):
        raise ValueError(f"null, none, COLUMN=VALUE, COLUMN=VALUE|VALUE or `COLUMN empty`, not {text!r}")
    return TombstoneRule("equals", column.strip(), deleting)
