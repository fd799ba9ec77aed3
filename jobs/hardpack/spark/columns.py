"""Columns of a user's table in Spark's expressions, whatever they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from hardpack.log.settings import Settings


def column(name: str | None) -> Column:
    """The top-level column of this very name; Spark takes a bare dot for a field and a backtick for a quote."""
    from pyspark.sql import functions as F

    return F.col("`" + (name or "").replace("`", "``") + "`")


def key_column(settings: Settings) -> Column:
    """The key of each row, null where there is none."""
    from pyspark.sql import functions as F

    key = column(settings.column_key)
    return F.when(F.length(key) > 0, key) if settings.key_absent == "empty" else key
