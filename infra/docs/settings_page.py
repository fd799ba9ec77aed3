"""Writes docs/settings.md from the model of the settings: python -m infra.docs.settings_page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardpack.rules.settings import Settings, default_text, dotted
from hardpack.rules.times import DAY_MS, LONG_MAX

MIB = 1024 * 1024
SEVERAL_COLUMNS = ("column.partition", "column.key")
PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
HEAD = """\
# Settings

`hardpack adopt TABLE --set NAME=VALUE` checks a setting and writes it into the table, as the
property `hardpack.NAME`. A policy file may set the same names for many tables; see
[airflow.md](airflow.md). A table's own property wins over its policy unless the policy locks it,
and a policy wins over the default. `segment.bytes` is Iceberg's `write.target-file-size-bytes`
where nothing else sets it.

Names and defaults that Kafka has are Kafka's. Sizes are bytes and times are milliseconds.

This page is made by `make docs`.
"""


def page() -> str:
    """Returns the whole page: each setting with its meaning, the values it takes and its default."""
    schema = Settings.model_json_schema()["properties"]
    return HEAD + "".join(_section(name, schema[name]) for name in map(dotted, Settings.model_fields))


def _section(name: str, told: dict[str, Any]) -> str:
    described = told["description"]
    meaning = textwrap.fill(f"{described[0].upper()}{described[1:]}.", 100, break_on_hyphens=False)
    return f"\n## `{name}`\n\n{meaning}\n\nTakes {_values(name, told)}. Default: {_default(name, told['default'])}.\n"


def _values(name: str, told: dict[str, Any]) -> str:
    for kind in told.get("anyOf", [told]):
        if "enum" in kind:
            return " or ".join(f"`{value}`" for value in kind["enum"])
        if kind["type"] == "array":
            return "names with commas between"
        if kind["type"] in ("integer", "number"):
            return " ".join(["a whole number" if kind["type"] == "integer" else "a number", *_bounds(kind)])
    if name in SEVERAL_COLUMNS:
        return "names of columns, with commas between"
    return "one of these rules" if "grammar" in told else "a column's name"


def _bounds(kind: dict[str, Any]) -> Iterator[str]:
    if "minimum" in kind:
        yield f"from {kind['minimum']}"
    if "exclusiveMinimum" in kind:
        yield f"above {kind['exclusiveMinimum']}"
    if "maximum" in kind and kind["maximum"] != LONG_MAX:
        yield f"to {kind['maximum']}"


def _default(name: str, value: Any) -> str:
    words = default_text(value)
    if words == "none":
        return words
    if words == "no limit":
        return f"`{value}`, which means {words}"
    if name.endswith(".ms") and value >= DAY_MS:
        return f"`{value}`, {value // DAY_MS} d"
    if name.endswith(".bytes") and value >= MIB:
        return f"`{value}`, {value // MIB} MiB"
    return f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
