"""Names and texts as they stand in Spark's SQL."""

from __future__ import annotations

from collections.abc import Sequence


def literal(text: str) -> str:
    """Returns text as a literal of Spark's SQL; the session must not substitute variables in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str | Sequence[str]) -> str:
    """Returns a name as an identifier of Spark's SQL, quoted part by part: `catalog.namespace.table`, or its parts."""
    parts = name.split(".") if isinstance(name, str) else name
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
