"""Adopts a table, which makes it a topic: checks it and sets its properties, or changes them later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyiceberg.table import Table

from hardpack.compaction.session import TableSession
from hardpack.errors import BadInput
from hardpack.operations.adoption_checks import check_rows, check_topics, topics_in
from hardpack.operations.alter_properties import alter_properties
from hardpack.operations.known_tables import note_adopted
from hardpack.operations.pause import date_anew
from hardpack.operations.write_properties import check_honoured
from hardpack.operations.writers import Writer, recognise, unmapped
from hardpack.rules.settings import PREFIX, Settings, dotted, is_kept, is_locked, own_settings, read_settings
from hardpack.rules.tombstones import NULL, TombstoneRule, tombstone_rule
from hardpack.table.columns import POLICY
from hardpack.table.history import ancestors, summary_of, tells_states
from hardpack.table.layout import FIELDS, OFFSETS, RULE, TOMBSTONES, bound_fields, check_layout, mean_other_rows
from hardpack.table.log_views import read_logs
from hardpack.table.readable import check_readable
from hardpack.table.readers import at_the_start, is_position
from hardpack.table.state import STATE_PROPERTY


def writer_of(session: TableSession, settings: Mapping[str, str], named: str | None = None) -> Writer | None:
    """Returns the sink that wrote a table, with the settings that an adoption would take from the sink.

    Returns None when no sink is recognised. An adopted table has its mapping already, so that it gives a sink only when
    one is named.

    Args:
        session: the table's.
        settings: what the user sets himself, which wins over the sink's.
        named: the sink's name; None to recognise it by the columns.

    Raises:
        BadInput: see `hardpack.operations.writers.recognise`.
    """
    table, policy = session.table, session.policy
    if named is None and POLICY in table.properties:
        return None
    before = {**policy, **own_settings(table.properties, policy)} if named is None else {}
    writer = recognise(table, {**before, **settings}, named)
    if writer is None:
        return None
    if writer.topic and len(topics := topics_in(table, writer.topic)) > 1:
        writer = writer.with_topics(topics)
    taken = {k: v for k, v in unmapped(writer, [*before, *settings]).items() if not is_locked(k, policy)}
    return replace(writer, settings=taken)


def expect_settable(table: str, settings: Mapping[str, str], policy: Mapping[str, str]) -> None:
    """Checks that a user may set these settings for a table.

    Args:
        table: its name.
        settings: names without the prefix `hardpack.`, and their values.
        policy: what the table's policy sets.

    Raises:
        BadInput: hardpack keeps a property of such a name itself, or the policy locks the setting.
    """
    if reserved := sorted(k for k in settings if is_kept(k)):
        raise BadInput(f"{table}: hardpack.{reserved[0]} is kept by hardpack and not a setting; leave it alone.")
    if locked := sorted(k for k, v in settings.items() if v != "" and is_locked(k, policy)):
        raise BadInput(f"{table}: {locked[0]} is locked by the table's policy; set it in the policy file.")


def adopt(
    session: TableSession, settings: Mapping[str, str], dry_run: bool = False, named: str | None = None
) -> Settings:
    """Checks a table as it would be with the settings, and sets them when all is well.

    The first adoption maps the columns as the recognised sink writes them. An adopted table has new logs when its
    partition, offset or key is mapped to another field: the states of its logs are removed. When it is the partition or
    the offset, readers are recorded at 0 too, and tombstones wait for them until they tell anew how far they are. When
    other rows become tombstones, delete.retention.ms begins anew for all tombstones that passes have met.

    Args:
        session: the table's.
        settings: names without the prefix `hardpack.`, and their values; an empty value removes the property.
        dry_run: only check.
        named: the sink that wrote the table; None to recognise it.

    Returns:
        The settings then in force.

    Raises:
        BadInput: a wrong setting, column, type or partitioning; nothing was changed.
    """
    name, table, policy = session.name, session.table, session.policy
    writer = writer_of(session, settings, named)
    settings = {**(writer.settings if writer else {}), **settings}
    expect_settable(name, settings, policy)
    wanted = {PREFIX + k: v for k, v in settings.items() if v != ""}
    gone = [PREFIX + k for k, v in settings.items() if v == "" and PREFIX + k in table.properties]
    known = {dotted(field) for field in Settings.model_fields}
    if lost := next((k for k, v in settings.items() if v == "" and k not in known and PREFIX + k not in gone), None):
        raise BadInput(f"{name}: {lost} is no setting, and the table has no property {PREFIX}{lost}; mend its name.")
    if POLICY not in table.properties or POLICY in gone:
        # this property marks a table as adopted, so that its default is written out too
        wanted.setdefault(POLICY, policy.get("cleanup.policy", "compact"))
        gone = [name for name in gone if name != POLICY]
    future = {k: v for k, v in table.properties.items() if k not in gone} | wanted
    result = read_settings(name, future, policy)
    # a role whose setting is given is bound to a field anew, the others keep their fields
    anew = {name.removeprefix("column.").replace(".", "_") for name in settings if name.startswith("column.")}
    anew |= {RULE, "value"} if "tombstone" in settings else {RULE}
    check_readable(table)
    check_layout(table, result, anew)
    check_honoured(table, result)
    views = read_logs(table, result)
    if POLICY not in table.properties and (trouble := next((v.trouble for v in views if v.trouble), "")):
        raise BadInput(f"{name}: {trouble}.")
    if POLICY not in table.properties or "key.absent" in settings:
        check_rows(table, result)
    named_anew = POLICY not in table.properties or "column.partition" in settings
    check_topics(table, result, writer.topic if writer else "", by_name=named_anew)
    wanted[FIELDS] = bound_fields(table, result)
    if not dry_run:
        if _other_tombstones(table, result, wanted[FIELDS], policy):
            # before the settings are changed, so that at no time an old horizon counts for a new tombstone
            date_anew(session, result, session.clock())
        _set(session, wanted, gone, [view.name for view in views])
    return result


def _other_tombstones(table: Table, after: Settings, fields: str, policy: Mapping[str, str]) -> bool:
    """Returns whether new settings make other rows of an adopted table tombstones than the current ones do."""
    if POLICY not in table.properties or STATE_PROPERTY not in table.properties:
        return False
    before = {**policy, **own_settings(table.properties, policy)}.get("tombstone", NULL)
    return _rule(before) != _rule(after.tombstone) or mean_other_rows(_fields_of_state(table), fields, TOMBSTONES)


def _rule(text: str) -> TombstoneRule | None:
    """Returns the rule that a text stands for, so that two spellings of one rule are equal.

    None for a text that is no rule, which somebody set without an adoption.
    """
    with suppress(ValueError):
        return tombstone_rule(text)
    return None


def _set(session: TableSession, wanted: dict[str, str], gone: list[str], logs: Sequence[str]) -> None:
    """Sets and removes properties; removes states and positions that were recorded by another mapping of columns."""
    table = session.table
    before, after = _fields_of_state(table), wanted[FIELDS]
    if mean_other_rows(before, after, OFFSETS):
        # the readers' positions are offsets of another column, or of other logs
        begun = at_the_start(table.properties, logs, session.clock())
        gone += [key for key in table.properties if is_position(key) and key not in begun]
        wanted |= begun
    others = mean_other_rows(before, after)
    gone += [STATE_PROPERTY] if others and STATE_PROPERTY in table.properties else []
    alter_properties(session, wanted, gone)
    if others and STATE_PROPERTY in table.refresh().properties:
        # a pass by the former mapping has set the state again meanwhile
        alter_properties(session, {}, [STATE_PROPERTY])
    if session.home.is_dir():
        # so that it is missed from its first silence on
        note_adopted(session.home, table.catalog.name, {session.name: True})


def _fields_of_state(table: Table) -> str:
    """Returns the fields that a table's state was recorded by.

    Without the property the newest commit with states tells; empty when none does.
    """
    recorded = (summary_of(s).get(FIELDS, "") for s in ancestors(table) if tells_states(s))
    return table.properties.get(FIELDS) or next(recorded, "")
