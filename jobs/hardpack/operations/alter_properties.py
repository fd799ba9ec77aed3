"""A change of a table's properties, by whichever of the two libraries writes its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardpack.compaction.session import TableSession


def alter_properties(session: TableSession, wanted: Mapping[str, str], gone: Sequence[str] = ()) -> None:
    """Sets and removes properties of a table in one commit.

    Args:
        session: the table's.
        wanted: to set.
        gone: names to remove; those that are not there are passed over.
    """
    to_remove = [name for name in gone if name in session.table.properties]
    try:
        with session.table.transaction() as transaction:
            transaction.set_properties(dict(wanted))
            if to_remove:
                transaction.remove_properties(*to_remove)
    except NotImplementedError:
        # pyiceberg does not write the metadata of every format
        session.jvm.alter(lambda _: {**wanted, **dict.fromkeys(to_remove)})
