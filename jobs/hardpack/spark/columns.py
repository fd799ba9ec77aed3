"""Spark's expressions for the columns of a user's table, whatever they are called: the one projection of roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from hardpack.rules.model import Partition
from hardpack.table.columns import LogColumns
from hardpack.table.schema_columns import LogColumn

if TYPE_CHECKING:
    from pyspark.sql import Column


WHOLE_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's JSON writer, which without them cuts a time off after its milliseconds."""
KEY_AS_JSON = WHOLE_TIMES | {"ignoreNullFields": "false"}
"""Options of Spark's JSON writer for keys: times are whole, and nulls are written, which it else leaves out."""


def column(*path: str) -> Column:
    """Returns the column of exactly this name, or the field inside structs that a path leads to.

    Names are quoted, because Spark takes a bare dot for a field and a backtick for a quote.
    """
    from pyspark.sql import functions as F

    return F.col(".".join("`" + name.replace("`", "``") + "`" for name in path))


def log_column(columns: LogColumns) -> Column:
    """Returns the name of each row's log as text, null where it has none."""
    from pyspark.sql import functions as F

    parts = [column(*c.path).cast("string") for c in columns.log.columns]
    # `concat` gives null when one part is null
    return reduce(lambda name, part: F.concat(name, F.lit("-"), part), parts)


def in_logs(columns: LogColumns, logs: Iterable[Partition]) -> Column:
    """Returns the condition that a row is of one of the logs, in a form by which Iceberg can leave files out.

    Args:
        columns: of the rows' table, as it calls them.
        logs: their names or numbers.
    """
    from pyspark.sql import functions as F

    alternatives = [
        reduce(and_, (column(*c.path).isin(values) for c, values in one)) for one in columns.log.among(logs)
    ]
    return reduce(or_, alternatives, F.lit(False))


def key_column(columns: LogColumns) -> Column:
    """Returns the key of each row, null where there is none."""
    from pyspark.sql import functions as F

    if columns.plain_key is None:
        return key_as_json([column(*c.path) for c in columns.keys])
    key = column(*columns.plain_key.path)
    return F.when(F.length(key) > 0, key) if columns.empty_key_is_absent else key


def key_as_json(parts: Sequence[Column]) -> Column:
    """Returns a key of several columns as one text, null where all are null.

    Spark's own writer of JSON makes the text, so that the gate does not depend on the bytes that a pass compares.

    Args:
        parts: the columns of the key, in order.
    """
    from pyspark.sql import functions as F

    text = F.to_json(F.struct(*(part.alias(f"k{at}") for at, part in enumerate(parts))), KEY_AS_JSON)
    return F.when(reduce(or_, (part.isNotNull() for part in parts)), text)


def deleting(columns: LogColumns) -> Column:
    """Returns the condition that a row is a tombstone; only under the rule `null` does a null value make it one."""
    from pyspark.sql import functions as F

    rule = columns.tombstone
    if columns.value is None:
        return F.lit(False)
    value = column(*columns.value.path)
    if rule.kind == "null":
        return value.isNull()
    deletes = F.length(value) == 0 if rule.kind == "empty" else value.cast("string").isin(list(rule.values))
    return F.coalesce(deletes, F.lit(False))


def control_type(columns: LogColumns) -> Column:
    """Returns `commit` or `abort` for a control row, null for every other; Kafka writes them as 1 and 0."""
    from pyspark.sql import functions as F

    if columns.control is None:
        return F.lit(None).cast("string")
    text = F.lower(column(*columns.control.path).cast("string"))
    return F.when(text == "1", "commit").when(text == "0", "abort").otherwise(text)


def role_columns(columns: LogColumns, tombstones: bool = True) -> dict[str, Column]:
    """Returns the columns that the rules ask for, by the names that Spark's jobs give them.

    Args:
        columns: of the rows' table, as it calls them.
        tombstones: whether to tell tombstones, for which the value is read; if not, no row counts as one.

    Returns:
        p (text of the partition), k (key), o (offset), tombstone and control; with transactions pid and tx; where they
        are mapped batch and epoch.
    """
    from pyspark.sql import functions as F

    control = control_type(columns)
    # a control row may have no value, but it deletes nothing
    dead = deleting(columns) & control.isNull() if tombstones else F.lit(False)
    roles = {
        "p": log_column(columns),
        "k": key_column(columns),
        "o": column(*columns.offset.path).cast("long"),
        "tombstone": dead,
        "control": control,
    }
    if columns.producer_id and columns.transactional:
        in_transaction = F.coalesce(column(*columns.transactional.path), F.lit(False)) & control.isNull()
        roles |= {"pid": _long(columns.producer_id), "tx": in_transaction}
    if columns.batch:
        roles["batch"] = _long(columns.batch)
    if columns.leader_epoch:
        roles["epoch"] = _long(columns.leader_epoch)
    return roles


def _long(mapped: LogColumn) -> Column:
    return column(*mapped.path).cast("long")


def named(roles: dict[str, Column], *names: str) -> list[Column]:
    """Returns columns of a projection under their names.

    Args:
        roles: the projection.
        names: which of them; all when none is named.
    """
    return [roles[name].alias(name) for name in names or roles]
