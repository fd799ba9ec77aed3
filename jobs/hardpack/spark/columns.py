"""Columns of a user's table in Spark's expressions, whatever they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def column(name: str | None) -> Column:
    """The top-level column of this very name; Spark takes a bare dot for a field and a backtick for a quote."""
    from pyspark.sql import functions as F

    return F.col("`" + (name or "").replace("`", "``") + "`")
