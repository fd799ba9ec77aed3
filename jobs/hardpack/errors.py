"""Errors a user meets: each message is one sentence that names the place, what was expected and how to mend it."""

from collections.abc import Sequence
from difflib import get_close_matches

MOST_NAMES = 20
"""Most names of columns in a sentence."""


def some_of(names: Sequence[str], like: str = "") -> str:
    """Returns names for a sentence, with commas between: all, or those most like a name and how many more there are.

    Args:
        names: of columns, say.
        like: the name that they are to be like; empty for the first ones.
    """
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    shown = get_close_matches(like, names, MOST_NAMES, cutoff=0.4) or names[:MOST_NAMES]
    return f"{', '.join(shown)} and {len(names) - len(shown):,} more"


def plain(text: str) -> str:
    """Returns a text on one line, its unprintable characters escaped, so that no terminal acts on them.

    The text may hold names that anybody who makes a table or calls hardpack can choose.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class HardpackError(Exception):
    """Base of every error hardpack raises on purpose; `exit_code` is the command line's and the jobs' exit code."""

    exit_code = 2

    def __str__(self) -> str:
        return plain(super().__str__())


class BadInput(HardpackError):
    """A table, setting, plan or argument that cannot be worked with; no row was changed for it."""


class UncleanableLog(BadInput):
    """Rows of a log cannot be cleaned as they are; the table's other logs can.

    Args:
        message: the sentence.
        partitions: the logs.
        reason: what is wrong with them, for their state.
    """

    def __init__(self, message: str, partitions: tuple[str, ...], reason: str) -> None:
        super().__init__(message)
        self.partitions, self.reason = partitions, reason


class UnfitFile(BadInput):
    """A sound data file whose columns cannot become the table's."""


class Unreadable(BadInput):
    """A table that is not there or that nobody can read before it is mended; whether it was adopted is not known."""


class GateRefused(HardpackError):
    """The staged result broke a guarantee, so it was not published.

    Args:
        message: the sentence.
        partitions: the logs it broke in.
        pages: files of Data Docs that show it.
    """

    exit_code = 3

    def __init__(self, message: str, partitions: tuple[str, ...] = (), pages: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.partitions, self.pages = partitions, pages


class ExpectationFailed(HardpackError):
    """Every guarantee holds, and a user's own critical expectation of a table's rows does not.

    Args:
        message: the sentence.
        pages: files of Data Docs that show it.
    """

    exit_code = 6

    def __init__(self, message: str, pages: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.pages = pages


class Conflict(HardpackError):
    """Somebody else changed the input files or the log's state meanwhile, so what was staged was not published.

    The work has to be planned again.
    """

    exit_code = 4


class Unavailable(HardpackError):
    """A catalog, storage or Spark did not answer; nothing is wrong with the input, so the same may be tried again."""

    exit_code = 5


class CommitUnknown(Conflict):
    """The catalog did not say whether a commit went through; run the same plan again, it finds out."""


class Unforeseen(HardpackError):
    """An error that nobody foresaw. Nothing was published; the log tells whether something was left behind."""

    exit_code = 1
