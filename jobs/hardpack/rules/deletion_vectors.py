"""How dead rows leave a data file: by rewriting it, or under a deletion vector until more have gathered.

Kafka has no such choice: it copies every segment. A deletion vector is the cheaper way while few rows are dead, and
each reader pays for it. A row whose key was deleted is never merely hidden. Where the table's format has no deletion
vectors, a position delete file for the one data file takes their place.
"""

from __future__ import annotations

from hardpack.rules.settings import Settings


def stays_under_vector(rows: int, size: int, dead: int, gone: bool, settings: Settings) -> bool:
    """Returns whether a data file stays and a deletion vector hides its dead rows, on a table that allows it.

    Args:
        rows: number of rows in the file, dead ones included.
        size: size of the file, bytes.
        dead: number of its dead rows, those that earlier vectors hide included.
        gone: whether a row has to leave the storage, because its key was deleted or it never belonged to the log.
        settings: of the log. With `commit.operation=replace` no file stays, as Iceberg's `replace` adds no vectors.
    """
    if settings.commit_operation == "replace":
        return False
    if gone or dead >= rows or size < settings.deletion_vector_min_bytes:
        return False
    return dead <= rows * settings.deletion_vector_max_ratio
