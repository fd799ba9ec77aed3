"""Remembers which tables of a catalog were adopted when last seen, so that this is known of an unreadable one too."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from hardpack.errors import Unreadable
from hardpack.failures import of_table
from hardpack.home import replace_file
from hardpack.table.catalog import asked_ahead, find_tables, open_table
from hardpack.table.columns import is_topic

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)


def find_topics(catalog: Catalog, patterns: Collection[str], home: Path) -> list[str]:
    """Returns the adopted tables that names or globs match; see `hardpack.Hardpack.tables`.

    Args:
        catalog: where they are.
        patterns: names or globs; a plain name is returned whether adopted or not.
        home: hardpack's home, which notes the tables that were adopted when they were opened last.
    """
    adopted_before = {name for name in adopted_tables(home, catalog.name) if _matches(name, patterns)}
    listed = known_tables(catalog, patterns, adopted_before)
    globs = [pattern for pattern in patterns if has_magic(pattern)]
    if not (names := [name for name in listed if _matches(name, globs)]):
        return listed
    # a table that was adopted and is gone from the catalog counts as no longer adopted
    seen = dict.fromkeys(adopted_before.difference(listed), False)
    broken: dict[str, Exception] = {}
    asked = asked_ahead(catalog, lambda name: is_topic(open_table(catalog, name)), names)
    for name, answer in zip(names, asked, strict=True):
        try:
            seen[name] = answer.result()
        except Exception as error:  # one broken table must not hide the others
            broken[name] = error
    if home.is_dir():  # a verb that only asks does not make the home
        note_adopted(home, catalog.name, seen)
    found = set(patterns).difference(globs)
    for glob in globs:
        found |= _topics_of_glob([name for name in names if _matches(name, [glob])], seen, broken, adopted_before)
    for name in sorted(broken.keys() - found):
        log.warning("passed over, as nobody is known to have adopted it: %s", of_table(name, broken[name]))
    return [name for name in listed if name in found]


def _topics_of_glob(
    names: Collection[str], seen: Mapping[str, bool], broken: Mapping[str, Exception], adopted_before: Collection[str]
) -> set[str]:
    """Returns which of the tables that one glob matches are topics, or may be.

    Args:
        names: of these tables.
        seen: for each table that was opened whether it is adopted.
        broken: why the others could not be opened.
        adopted_before: names of tables that were adopted when they were opened last.
    """
    unreadable = {name for name in names if isinstance(broken.get(name), Unreadable)}
    if len(unreadable) == len(names):  # when no table can be read, the fault is not the tables'
        return unreadable
    # while no table of these is noted as adopted, any may be, so each that does not answer is returned
    known = [name for name in names if name in adopted_before]
    told = known or [name for name in names if name in broken and name not in unreadable]
    return {name for name in names if seen.get(name, name in told)}


def known_tables(catalog: Catalog, patterns: Collection[str], adopted: Collection[str]) -> list[str]:
    """Returns the names of the tables that names or globs match, sorted; see `hardpack.table.catalog.find_tables`.

    A catalog passes over a namespace that the user may not list (any more). Its adopted tables are returned all the
    same, so that they are read, or reported as unreadable.

    Args:
        catalog: where they are.
        patterns: names or globs.
        adopted: names of the tables that were adopted when they were seen last.

    Raises:
        Unavailable: the catalog does not answer, or lets nothing be listed.
    """
    listed = set(find_tables(catalog, *patterns))
    unlisted = [name for name in set(adopted) - listed if _matches(name, patterns)]
    asked = asked_ahead(catalog, lambda name: may_be_there(catalog, name), unlisted)
    return sorted(listed | {name for name, answer in zip(unlisted, asked, strict=True) if answer.result()})


def _matches(name: str, patterns: Collection[str]) -> bool:
    # a name may hold signs of globs itself
    return name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def may_be_there(catalog: Catalog, table: str) -> bool:
    """Returns whether a table is in a catalog, and True when the catalog cannot be asked."""
    try:
        return catalog.table_exists(table)
    except Exception as error:  # reading the table reports the same failure later
        log.info("%s", of_table(table, error))
        return True


def adopted_tables(home: Path, catalog: str) -> set[str]:
    """Returns the names of the tables that were adopted when a look last opened them; none when nobody noted any."""
    try:
        return set(json.loads(_file(home, catalog).read_text()))
    except (OSError, ValueError, TypeError):  # the file only helps, and the next look writes it anew
        return set()


def note_adopted(home: Path, catalog: str, seen: Mapping[str, bool]) -> None:
    """Records in a catalog's file which tables a look saw as adopted, and warns of tables that no longer are.

    Logs a warning when the file cannot be written.

    Args:
        home: hardpack's home.
        catalog: the catalog's name.
        seen: for each table that was opened or is gone, by its name, whether it is adopted.
    """
    before = adopted_tables(home, catalog)
    after = (before - seen.keys()) | {name for name, adopted in seen.items() if adopted}
    if after == before:
        return
    for name in sorted(before - after):
        log.warning(
            "%s was adopted when last seen and is no longer, as after it was dropped, created again or taken out; "
            "`hardpack adopt %s` takes it back", name, name,
        )  # fmt: skip
    file = _file(home, catalog)
    # another process may write the file at the same time; what is lost that way is noted at the next look
    try:
        replace_file(file, json.dumps(sorted(after)))
    except OSError as error:
        log.warning("which tables are adopted could not be noted: %s", error)


def _file(home: Path, catalog: str) -> Path:
    return home / "adopted" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', catalog)}.json"
