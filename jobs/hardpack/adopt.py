"""Make a table a topic: check it and set its properties, or change them later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.table import Table

from hardpack.control import Door, written
from hardpack.errors import BadInput
from hardpack.lake.layout import POLICY, check_layout, table_name
from hardpack.lake.sensing import read_logs
from hardpack.log.settings import NONE, NOT_SETTINGS, PREFIX, Settings, read_settings


def adopt(
    table: Table,
    settings: Mapping[str, str],
    dry_run: bool = False,
    policy: Mapping[str, str] = NONE,
    door: Door | None = None,
) -> Settings:
    """Check a table as it would be with the settings; set them when all is well.

    Args:
        table: as pyiceberg loaded it.
        settings: names without the prefix `hardpack.`, and their values; an empty value removes the property.
        dry_run: only check.
        policy: settings of the table's policy.
        door: see `hardpack.control.Door`.

    Returns:
        The settings then in force.

    Raises:
        BadInput: a wrong setting, column, type or partitioning; nothing was changed.
    """
    name = table_name(table)
    if reserved := sorted(NOT_SETTINGS & settings.keys()):
        raise BadInput(f"{name}: hardpack.{reserved[0]} is kept by the passes and not a setting; leave it alone.")
    wanted = {PREFIX + k: v for k, v in settings.items() if v != ""}
    if POLICY not in table.properties:
        wanted.setdefault(POLICY, "compact")
    gone = [PREFIX + k for k, v in settings.items() if v == "" and PREFIX + k in table.properties]
    future = {k: v for k, v in table.properties.items() if k not in gone} | wanted
    result = read_settings(name, future, policy)
    check_layout(table, result)
    read_logs(table, result)
    if not dry_run:
        written(lambda: _write(table, wanted, gone), door, lambda _: {**wanted, **dict.fromkeys(gone)})
    return result


def _write(table: Table, wanted: Mapping[str, str], gone: Sequence[str]) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(dict(wanted))
        if gone:
            transaction.remove_properties(*gone)
