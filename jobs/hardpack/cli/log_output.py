"""Sets how a process of hardpack's logs: one line a record, and no credential in it or in the trace below."""

from __future__ import annotations

import logging
from typing import TextIO

from hardpack.table.redaction import redacted


class Redacting(logging.Formatter):
    """Strikes the credentials of pyiceberg's configuration out of messages and traces."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of a record, its trace included, without credentials."""
        return redacted(super().format(record))


def begin_logging(level: int, stream: TextIO, of_libraries: int = logging.NOTSET) -> None:
    """Begins to log from a level on, once for the process.

    Args:
        level: one of logging's.
        stream: where to.
        of_libraries: the level from which on records of other libraries are logged, where that is higher.
    """
    handler = logging.StreamHandler(stream)
    handler.addFilter(lambda record: record.levelno >= of_libraries or record.name.startswith("hardpack"))
    handler.setFormatter(Redacting("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
