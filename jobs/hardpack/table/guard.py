"""pyiceberg's catalogs, guarded: their tables choose neither code nor endpoints, and no request waits for ever.

pyiceberg merges a table's own properties into those of its FileIO, and imports the class that `py-io-impl` or
`write.py-location-provider.impl` names there. Whoever may set a property could run code here, or be sent credentials.
A guarded catalog makes a FileIO of its configuration and, where it is REST, of what the server vends with the table.
"""

from __future__ import annotations

from abc import ABC, ABCMeta
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.catalog import PY_CATALOG_IMPL, Catalog, CatalogType, MetastoreCatalog, infer_catalog_type, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import PY_IO_IMPL, load_file_io
from pyiceberg.table import TableProperties
from pyiceberg.table.update import RemovePropertiesUpdate
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.utils.config import Config, merge_config
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url

from hardpack.errors import BadInput
from hardpack.table.places import inside
from hardpack.table.redaction import remember_secrets

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import TableResponse
    from pyiceberg.io import FileIO
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties
    from requests import Session

TIMEOUT = "hardpack.timeout-seconds"
"""Catalog property: how long one question to the catalog may take."""
TIMEOUT_SECONDS = 30.0
PROVIDER = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
CODE = (PY_IO_IMPL, "auth")
"""Properties that name code, which pyiceberg imports."""


def timeout_of(properties: Mapping[str, object]) -> float:
    """Return how long one question to a catalog with these properties may take, in seconds.

    Raises:
        BadInput: it is no positive number.
    """
    given = properties.get(TIMEOUT, TIMEOUT_SECONDS)
    with suppress(ValueError):
        if 0 < (seconds := float(str(given))) < float("inf"):
            return seconds
    raise BadInput(f"catalog property {TIMEOUT} is {given!r}, expected seconds above 0, as in 30.")


class _DeletesOwn(Catalog, ABC):
    """A catalog whose commits delete older metadata files only under the table's location, whatever the log names."""

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        own = [entry for entry in base.metadata_log if inside(entry.metadata_file, base.location)]
        Catalog._delete_old_metadata(io, base.model_copy(update={"metadata_log": own}), metadata)


def _bound_requests(session: Session, seconds: float) -> None:
    """Give every request of a session a time-out, as the library requests has none by itself."""
    # on the session and not on its class, as other code in the process has sessions too
    session.request = partial(session.request, timeout=seconds)  # type: ignore[method-assign]


class GuardedRestCatalog(_DeletesOwn, RestCatalog):
    """A REST catalog, guarded: what it vends with a table counts for the FileIO, the table's own properties do not."""

    def _config_headers(self, session: Session) -> None:
        # pyiceberg does this first with a new session, before it asks for a token through it
        _bound_requests(session, timeout_of(self.properties))
        super()._config_headers(session)

    def _fetch_config(self) -> None:
        ours = {name: self.properties.get(name) for name in CODE}
        super()._fetch_config()
        self.properties = {k: v for k, v in self.properties.items() if k not in CODE}
        self.properties |= {name: value for name, value in ours.items() if value is not None}

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return super()._load_file_io({k: v for k, v in properties.items() if k not in CODE}, location)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        bare = table_response.metadata.model_copy(update={"properties": {}})
        table = super()._response_to_table(identifier_tuple, table_response.model_copy(update={"metadata": bare}))
        table.metadata = table_response.metadata
        return table


class GuardedMetastore(_DeletesOwn, MetastoreCatalog):
    """A catalog that stores where a table's metadata lies, guarded: SQL, Glue, Hive and such."""

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return load_file_io(self.properties, location)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        provider = current_table.metadata.properties.get(PROVIDER) if current_table else None
        if provider is None or any(PROVIDER in getattr(update, "removals", ()) for update in updates):
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        # staged without the property, so that what it names is not imported, and published with it
        without = (*updates, RemovePropertiesUpdate(removals=[PROVIDER]))
        staged = super()._update_and_stage_table(current_table, table_identifier, requirements, without)
        properties = {**staged.metadata.properties, PROVIDER: provider}
        staged.metadata = staged.metadata.model_copy(update={"properties": properties})
        return staged


def load_guarded(name: str, properties: Mapping[str, str]) -> Catalog:
    """Open the catalog that pyiceberg's configuration names, guarded and with time-outs.

    Raises:
        BadInput: the time-out is no number; else what pyiceberg raises.
    """
    conf: dict[str, Any] = merge_config(Config().get_catalog_config(name) or {}, dict(properties))
    remember_secrets(conf)
    seconds = timeout_of(conf)
    if PY_CATALOG_IMPL in properties:
        return guarded(load_catalog(name, **properties))
    kind = CatalogType(str(conf["type"]).lower()) if conf.get("type") else infer_catalog_type(name, conf)
    if kind == CatalogType.REST and "uri" in conf:
        return GuardedRestCatalog(name, **conf)
    if kind == CatalogType.SQL and isinstance(conf.get("uri"), str):
        properties = {**properties, "uri": bounded_uri(conf["uri"], seconds)}
    # load_catalog adds the configured properties, and takes no catalog class from them
    return guarded(load_catalog(name, **properties))


@cache
def _guarded_kind(kind: type[Catalog]) -> type[Catalog]:
    guard = GuardedRestCatalog if issubclass(kind, RestCatalog) else GuardedMetastore
    return cast(type[Catalog], ABCMeta(f"Guarded{kind.__name__}", (guard, kind), {}))


def guarded(catalog: Catalog) -> Catalog:
    """Guard a catalog that the caller opened. It stays the same object, so that tables loaded by it are guarded too."""
    unguarded = not isinstance(catalog, GuardedRestCatalog | GuardedMetastore)
    if isinstance(catalog, RestCatalog | MetastoreCatalog) and unguarded:
        remember_secrets(catalog.properties)
        # mypy cannot follow a class made at run time
        catalog.__class__ = _guarded_kind(type(catalog))  # type: ignore[assignment]
        if isinstance(catalog, RestCatalog):
            _bound_requests(catalog._session, timeout_of(catalog.properties))
        if isinstance(catalog, SqlCatalog):
            _bound_statements(catalog.engine, timeout_of(catalog.properties))
    return catalog


def bounded_uri(uri: str, seconds: float) -> str:
    """Return an address for SQLAlchemy with time-outs, as of connecting and of SQLite's lock, where it names none."""
    url = make_url(uri)
    whole = str(max(2, round(seconds)))
    bounds = {
        "sqlite": {"timeout": whole},
        "postgresql": {"connect_timeout": whole},
        "mysql": {"connect_timeout": whole, "read_timeout": whole, "write_timeout": whole},
    }.get(url.get_backend_name(), {})
    query = {**bounds, **url.query}
    return url.set(query=query).render_as_string(hide_password=False)


def _bound_statements(engine: Engine, seconds: float) -> None:
    """Bound the time that PostgreSQL may take for a statement of the engine, waits for locks included."""
    if engine.dialect.name != "postgresql":
        return

    def connected(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {round(seconds * 1000)}")
        connection.commit()

    event.listen(engine, "connect", connected)
    # closes connections that are open, as they know nothing of the bound
    engine.dispose()
