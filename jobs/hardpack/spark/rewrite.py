"""The wide pass: hit files are read through their deletion vectors and written anew, group by group."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hardpack.lake.door import IceTable
from hardpack.lake.puffin import encode
from hardpack.log.model import DataFile
from hardpack.spark.dead_rows import DeadRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rewrite(
    table: IceTable,
    tasks: Mapping[str, Any],
    groups: list[list[DataFile]],
    dead: Mapping[str, DeadRows],
    offset_column: str,
    target_bytes: int,
) -> list[Any]:
    """Write the living rows of the groups' files, in offset order, one Spark partition per group.

    A file with no living row is not read at all.

    Args:
        table: the table's door.
        tasks: scan tasks by data file path, at least of the groups' files.
        groups: files that become one.
        dead: dead rows by data file path.
        offset_column: name of the offset column.
        target_bytes: size at which a new file ends.

    Returns:
        New data files, known to no snapshot yet.
    """
    unread = {f.path: dead[f.path].unread(f.rows) for g in groups for f in g}
    living = [[f for f in g if len(unread[f.path]) < f.rows] for g in groups]
    group_of = {f.path: at for at, group in enumerate(g for g in living if g) for f in group}
    if not group_of:
        return []
    content, vectors = encode({path: unread[path] for path in group_of})
    with table.temporary_file(f"hardpack-{uuid.uuid4()}.puffin", content) as puffin:
        staged = [table.with_vector(tasks[path], puffin, len(content), vectors[path]) for path in group_of]
        with table.staged(staged) as group_id:
            rows = _by_group(table, table.read(group_id), group_of)
            return table.write(rows.sortWithinPartitions(offset_column), group_id, target_bytes)


def _by_group(table: IceTable, rows: DataFrame, group_of: Mapping[str, int]) -> DataFrame:
    from pyspark.sql import functions as F

    groups = max(group_of.values()) + 1
    columns = rows.columns
    if groups == 1:
        return rows.coalesce(1)
    # _file does not resolve on a staged read of format v3, the input file's name does
    lookup = table.spark.createDataFrame(list(group_of.items()), "_hardpack_file string, _hardpack_group int")
    named = rows.withColumn("_hardpack_file", F.input_file_name())
    joined = named.join(F.broadcast(lookup), "_hardpack_file", "left")
    return joined.repartitionById(groups, F.col("_hardpack_group")).select(*columns)
