"""How dead rows leave a data file: by rewriting it, or under a deletion vector until more have gathered.

Kafka has no such choice, it copies every segment. A vector is the cheaper way while few rows are dead, and each reader
pays for it; a key that was deleted is never merely hidden. Where the format has no vectors, a position delete file
of the one data file stands for it.
"""

from __future__ import annotations

from hardpack.rules.settings import Settings


def stays_under_vector(rows: int, size: int, dead: int, gone: bool, settings: Settings) -> bool:
    """Returns whether a file is left as it is, its dead rows named in a deletion vector, on a table that allows it.

    Args:
        rows: in the file, dead ones too.
        size: of the file, bytes.
        dead: its dead rows, those of earlier vectors among them.
        gone: whether a row has to leave the storage, for its key was deleted or it was never the log's.
        settings: of the log. Iceberg's `replace` adds no vectors, so with it there are none.
    """
    if settings.commit_operation == "replace":
        return False
    if gone or dead >= rows or size < settings.deletion_vector_min_bytes:
        return False
    return dead <= rows * settings.deletion_vector_max_ratio
