"""What a log remembers of transactions between rounds."""

from __future__ import annotations


def held_after(last: tuple[int, int] | None, before: tuple[int, int] | None, bound: int) -> tuple[int, int] | None:
    """Returns the emptied batch that Kafka still holds after a round.

    It is the round's own last batch, else the earlier one as long as rounds end where that one does (Cleaner.cleanInto
    keeps a batch only at the round's very end).

    Args:
        last: `(offset, producer id)` of the transactional row that ends this round, if one does.
        before: the batch that was held when the round began.
        bound: where the round ends.
    """
    if last is None and before is not None and before[0] + 1 == bound:
        return before
    return last
