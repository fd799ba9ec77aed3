"""Credentials that a REST catalog lends for one table, renewed wherever the table's files are read or written.

A pass may last longer than the credentials, and Spark's tasks hold a copy from the pass's beginning. An open stream
keeps those that it was opened with, as Arrow's file systems know no others: it has MARGIN at least until they end.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyiceberg.io import PY_IO_IMPL, FileIO, load_file_io

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputFile
    from pyiceberg.table import Table

log = logging.getLogger(__name__)

LENT = ("s3.session-token", "s3.access-key-id", "gcs.oauth2.token", "adls.sas-token")
"""Properties that hold lent credentials, or what their names begin with."""
STORES = ("s3.", "gcs.", "adls.", "client.")
EXPIRES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
"""Properties that tell when lent credentials end, ms since the epoch, or what their names begin with."""
MARGIN = 5 * 60
"""Seconds before credentials end at which new ones are asked for."""
UNTOLD = 10 * 60
"""Seconds until new credentials are asked for where no end of them is told: no service lends for less."""
AGAIN = 30
"""Seconds from a try that failed to the next one."""

_renewing: dict[tuple[str, ...], Lock] = defaultdict(Lock)
"""Locks by catalog and table, so that a catalog that does not answer holds up no other's tables."""
_known: dict[tuple[str, ...], tuple[float, dict[str, Any]]] = {}
"""When to ask again and what was lent last, by catalog and table: each task of a process unpickles its own FileIO."""


def renewed(table: Table) -> FileIO:
    """Returns the table's FileIO; where its catalog lends credentials, one that renews them."""
    catalog, given = table.catalog, table.io.properties
    # compared by name, as the module takes long to import and other catalogs do not need it
    if all(kind.__name__ != "RestCatalog" for kind in type(catalog).__mro__):
        return table.io
    own = {key: value for key, value in given.items() if key.startswith(LENT)}
    if all(catalog.properties.get(key) == value for key, value in own.items()):
        return table.io
    name = (catalog.name, *table.name())
    # the catalog chooses the class of the FileIO, and the table does not
    chosen = {key: value for key, value in given.items() if key != PY_IO_IMPL or catalog.properties.get(key) == value}
    return RenewedIO(name, catalog.properties, chosen, table.metadata_location)


class RenewedIO(FileIO):
    """A FileIO that asks its REST catalog for new credentials before the present ones end.

    Args:
        name: of the catalog and, part by part, the table.
        catalog: properties of the catalog, as pyiceberg has them.
        properties: those of the FileIO, with credentials that were lent just now.
        location: tells the kind of storage.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        name: tuple[str, ...],
        catalog: Mapping[str, Any],
        properties: Mapping[str, Any],
        location: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(dict(properties))
        self._name, self._catalog, self._location, self._clock = name, dict(catalog), location, clock
        self._due = _due(self.properties, clock())
        self._io: FileIO | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_io": None}

    def new_input(self, location: str) -> InputFile:
        """Returns the file at a location, to be read."""
        return self._fresh().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Returns the file at a location, to be written."""
        return self._fresh().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self._fresh().delete(location)

    def _fresh(self) -> FileIO:
        # threads that read ahead come at once; one of them asks for all
        with _renewing[self._name]:
            if self._clock() >= self._due:
                self._renew()
            if self._io is None:
                self._io = load_file_io(self.properties, self._location)
            return self._io

    def _renew(self) -> None:
        due, properties = _known.get(self._name, (0.0, {}))
        if self._clock() >= due:
            try:
                properties = self.properties | self._lent()
                due = _due(properties, self._clock())
            except Exception as error:  # whatever it is, the present ones may still serve; if not, the storage says so
                log.warning("no new credentials for %s: %s", ".".join(self._name), type(error).__name__)
                self._due = self._clock() + AGAIN
                return
            _known[self._name] = due, properties
        self.properties, self._due, self._io = properties, due, None

    def _lent(self) -> dict[str, Any]:
        from hardpack.table.guard import GuardedRestCatalog

        class Lender(GuardedRestCatalog):
            def _response_to_table(self, _: object, response: Any) -> Any:
                # the table's own properties are left out: whoever may change the table can write them
                lent = self._resolve_storage_credentials(response.storage_credentials, response.metadata_location)
                return {**response.config, **lent}

        catalog = Lender(self._name[0], **self._catalog)
        try:
            if credentials := dict(catalog.load_credentials(self._name[1:], self._location)):
                return credentials
        except NotImplementedError:
            # an older server lends credentials only together with the table
            pass
        loaded: Any = catalog.load_table(self._name[1:])
        return {key: value for key, value in loaded.items() if key.startswith(STORES)}


def _due(properties: Mapping[str, Any], now: float) -> float:
    """Returns when to ask again, in seconds since the epoch: half way where less than two margins are left."""
    ends = [
        int(value) / 1000 for key, value in properties.items() if key.startswith(EXPIRES) and str(value).isdecimal()
    ]
    if not ends:
        return now + UNTOLD
    left = min(ends) - now
    return now + max(AGAIN, left - MARGIN if left > 2 * MARGIN else left / 2)
