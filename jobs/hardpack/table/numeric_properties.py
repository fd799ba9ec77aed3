"""Whole numbers among a table's properties, which anybody may set to anything."""

from __future__ import annotations

from collections.abc import Mapping

from hardpack.errors import BadInput
from hardpack.rules.times import LONG_MAX


def whole_number(table: str, properties: Mapping[str, str], key: str, default: int, least: int = 0) -> int:
    """Returns the number that a property of a table names.

    Args:
        table: its name, for the message.
        properties: the table's.
        key: the property's name.
        default: what counts when it is not set.
        least: the smallest number allowed.

    Raises:
        BadInput: it is no whole number, or a smaller one, or no long.
    """
    text = properties.get(key, str(default))
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or not least <= int(text) <= LONG_MAX:
        raise BadInput(
            f"{table}: table property {key} is {text[:40]!r}, expected a whole number from {least} to {LONG_MAX}; "
            "change it."
        )
    return int(text)
