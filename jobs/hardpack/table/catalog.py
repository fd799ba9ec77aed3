"""The one place where catalogs and tables are opened, from pyiceberg's own configuration."""

from __future__ import annotations

import logging
import threading
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from glob import has_magic
from typing import TYPE_CHECKING, TypeGuard, TypeVar

import pyiceberg.exceptions as ice
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError
from pyiceberg.catalog import ICEBERG, METADATA_LOCATION, TABLE_TYPE, Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from sqlalchemy import select
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from hardpack.errors import BadInput, Unavailable, Unreadable
from hardpack.table.guard import guarded, load_guarded
from hardpack.table.places import inside
from hardpack.table.redaction import redacted

if TYPE_CHECKING:
    from pyiceberg.catalog.glue import GlueCatalog

T = TypeVar("T")
log = logging.getLogger(__name__)

OUTAGES = (OperationalError, ice.RESTError, BotoCoreError, ClientError, OSError)
"""Errors of a catalog or storage that does not answer, as far as they differ from those of a wrong name."""
REFUSED = (ice.UnauthorizedError, ice.ForbiddenError, ice.OAuthError)
"""Errors of a REST catalog that answers and refuses: another try may help, as after a token is renewed."""
MISTAKES = (SQLAlchemyError, ValueError, ice.NoSuchNamespaceError, ice.NotInstalledError)
NO_ADDRESS = (NoRegionError, InvalidURL, InvalidSchema, MissingSchema)
"""Errors that are outages by their class, but of a wrong or missing address: waiting does not help."""
ABSENT = (ice.NoSuchTableError, ice.NoSuchNamespaceError, ice.NoSuchIdentifierError, ice.NoSuchPropertyException)
BROKEN = (
    ValueError, TypeError, KeyError, AttributeError, EOFError, zlib.error, RecursionError, ice.ValidationError,
)  # fmt: skip
"""Errors of reading metadata that is damaged, or has types that pyiceberg does not know."""
DENIED = ("ACCESS_DENIED", "AccessDenied", "Access Denied", "Forbidden", "HTTP status 403")
METADATA = "/metadata"
"""The folder of a table in which its metadata files lie, unless the table says otherwise."""
LOCATIONS = "hardpack.locations"
"""Catalog property: further folders, divided by commas, under which maintenance may delete files."""
MOST_PLACES = 100_000
LONGEST_PART = 200
"""Bytes of a name between its dots, which is a folder's name too."""
NO_PLACE = "/\\?#%*["
"""Characters of a name that would lead to another place when it is part of a table's location, or make it a glob."""
OPENED_AT_ONCE = 8
"""How many tables of a catalog are asked for side by side at most."""
SIDE_BY_SIDE: tuple[type, ...] = (SqlCatalog, RestCatalog)
"""Catalogs whose clients serve many threads; Glue's does too."""
_places: dict[tuple[str, str, str], str] = {}
_remembering = threading.Lock()


def open_catalog(name: str, properties: Mapping[str, str] | None = None) -> Catalog:
    """Open the catalog as pyiceberg's configuration (file or environment) names it.

    Raises:
        BadInput: it is not configured, or wrongly.
        Unavailable: it does not answer.
    """
    try:
        catalog = load_guarded(name, properties or {})
        catalog.list_namespaces()
    except REFUSED as error:
        raise Unavailable(
            f"catalog {name!r} refuses who asks ({_brief(error)}); mend the credential or token, named in "
            f".pyiceberg.yaml or PYICEBERG_CATALOG__{name.upper()}__CREDENTIAL, or what it is granted, or try again."
        ) from None
    except (*OUTAGES, *MISTAKES) as error:
        kind = Unavailable if isinstance(error, OUTAGES) and not isinstance(error, NO_ADDRESS) else BadInput
        raise kind(
            f"catalog {name!r} cannot be opened ({_brief(error)}); "
            f"name it in .pyiceberg.yaml or PYICEBERG_CATALOG__{name.upper()}__URI and see that it is up."
        ) from None
    return catalog


def open_table(catalog: Catalog, name: str) -> Table:
    """Open one table by its name `namespace.table`. Its own properties choose neither code nor endpoints.

    Raises:
        Unreadable: there is no such table, or it is a view, or it may not be read. Or its metadata file is missing or
            broken, or has types that are not known here. Nobody can read it before it is mended.
        Unavailable: the catalog or the storage does not answer now.
    """
    try:
        table = guarded(catalog).load_table(name)
    except ABSENT:
        raise _absent(catalog, name) from None
    except FileNotFoundError as error:
        raise Unreadable(
            f"{name}: the table's metadata file is missing ({_brief(error)}); restore it, or drop the table."
        ) from None
    except OUTAGES as error:
        if _denied(error):
            raise Unreadable(f"{name}: the table may not be read ({_brief(error)}); grant reading it.") from None
        if isinstance(error, zlib.error | EOFError | ice.BadRequestError) or type(error).__name__ == "BadGzipFile":
            raise _broken(name, error) from None
        mend = "mend the credential, or try again" if isinstance(error, REFUSED) else "try again"
        raise Unavailable(f"{name}: the table cannot be read ({_brief(error)}); {mend}.") from None
    except SQLAlchemyError as error:
        raise Unavailable(f"{name}: the catalog cannot be read ({_brief(error)}); try again.") from None
    except BROKEN as error:
        if len(parts := name.split(".")) < 2 or "" in parts:
            raise _absent(catalog, name) from None
        raise _broken(name, error) from None
    _remember(catalog, name, table.location())
    return table


def expect_new_name(table: str) -> None:
    """Checks that catalogs, folders and globs can take the name of a table that is to be made.

    Raises:
        BadInput: they cannot.
    """
    if "" in (parts := table.split(".")) or len(parts) < 2:
        raise BadInput(f"{table!r} names no table; write it as namespace.table.")
    if odd := sorted({sign for sign in table if sign in NO_PLACE or not sign.isprintable()}):
        raise BadInput(f"{table!r} has {odd[0]!r} in its name, which folders and globs do not know; leave it out.")
    if any(len(part.encode()) > LONGEST_PART for part in parts):
        raise BadInput(f"{table[:40]!r}… has a part of more than {LONGEST_PART} bytes, expected a shorter name.")


def is_configured(name: str) -> bool:
    """Returns whether pyiceberg's configuration has a catalog of this name."""
    return bool(Config().get_catalog_config(name))


def check_metadata_log(table: Table) -> None:
    """Checks that no commit would delete metadata files outside the table's location.

    With `write.metadata.delete-after-commit.enabled` each commit may delete the oldest metadata files that the table
    names.

    Raises:
        BadInput: the table has that property, and names older metadata files that do not lie under its location.
    """
    if table.properties.get("write.metadata.delete-after-commit.enabled", "").strip().lower() != "true":
        return
    for entry in table.metadata.metadata_log:
        if not inside(entry.metadata_file, table.location()):
            raise BadInput(
                f"{'.'.join(table.name())}: a commit would delete older metadata outside the table's location "
                f"({redacted(entry.metadata_file)}); set write.metadata.delete-after-commit.enabled=false."
            )


def _absent(catalog: Catalog, name: str) -> Unreadable:
    return Unreadable(
        f"{name}: no such table in catalog {catalog.name!r} (views are none); `hardpack status '*.*'` lists those "
        "there are."
    )


def _broken(name: str, error: Exception) -> Unreadable:
    return Unreadable(
        f"{name}: the table's metadata cannot be understood ({type(error).__name__}: {_brief(error)}); it is damaged, "
        "or has what pyiceberg does not know, such as columns of type variant."
    )


def _denied(error: Exception) -> bool:
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code")) in ("AccessDenied", "AccessDeniedException", "403")
    return isinstance(error, ice.ForbiddenError | PermissionError) or any(sign in str(error) for sign in DENIED)


def find_tables(catalog: Catalog, *patterns: str) -> list[str]:
    """Return the names of the tables that globs such as `db.*` match, sorted; a plain name as it is.

    The catalog is listed once, however many globs there are.

    Tables of nested namespaces are among them. A namespace that may not be listed is passed over with a warning.

    Raises:
        Unavailable: the catalog does not answer, or lets nothing be listed.
    """
    globs = [pattern for pattern in patterns if has_magic(pattern)]
    plain = set(patterns).difference(globs)
    if not globs:
        return sorted(plain)
    if isinstance(catalog, SqlCatalog) or _is_glue(catalog):
        return sorted(plain.union(_matching(metadata_locations(catalog), globs)))
    names, refused = set[str](), ""
    with _answering(catalog):
        for namespace in _namespaces(catalog):
            try:
                names |= {".".join(identifier) for identifier in catalog.list_tables(namespace)}
            except ice.NoSuchNamespaceError:  # it was dropped since it was listed
                continue
            except ice.ForbiddenError as error:
                refused = f"namespace {'.'.join(namespace)} may not be listed ({_brief(error)})"
                log.warning("catalog %s: %s", catalog.name, refused)
    if refused and not names:
        raise Unavailable(f"catalog {catalog.name!r}: {refused}; grant listing it.")
    return sorted(plain.union(_matching(names, globs)))


def _matching(names: Collection[str], globs: Collection[str]) -> list[str]:
    # a name may hold signs of globs itself
    return [name for name in names if name in globs or any(fnmatchcase(name, glob) for glob in globs)]


def _namespaces(catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """Yield all namespaces, those within others too."""
    waiting = list(catalog.list_namespaces())
    while waiting:
        yield (namespace := waiting.pop())
        # a catalog that cannot nest namespaces raises one of these, or lists the same namespaces again
        with suppress(ice.NoSuchNamespaceError, ice.BadRequestError, ice.ForbiddenError, NotImplementedError):
            inside = catalog.list_namespaces(namespace)
            waiting += [n for n in inside if len(n) > len(namespace) and n[: len(namespace)] == namespace]


def metadata_locations(catalog: Catalog) -> dict[str, str]:
    """Return where the current metadata of every table lies, by its name, in one question to the catalog.

    A metadata file never changes, so a table has not changed while it names the same file. The result is empty when the
    catalog tells it only table by table, as a REST catalog does.

    Raises:
        Unavailable: it does not answer.
    """
    with _answering(catalog):
        if _is_glue(catalog):
            return dict(_in_glue(catalog))
        return dict(_in_sql(catalog)) if isinstance(catalog, SqlCatalog) else {}


def _in_sql(catalog: SqlCatalog) -> Iterator[tuple[str, str]]:
    columns = IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location
    question = select(*columns).where(IcebergTables.catalog_name == catalog.name)
    if (no_views := catalog._iceberg_type_filter()) is not None:
        question = question.where(no_views)
    with catalog.engine.connect() as connection:
        rows = connection.execute(question).all()
    yield from ((f"{namespace}.{table}", location) for namespace, table, location in rows if location)


def _is_glue(catalog: Catalog) -> TypeGuard[GlueCatalog]:
    # not by its class, which only loads where boto3 is installed
    return hasattr(catalog, "glue")


def _in_glue(catalog: GlueCatalog) -> Iterator[tuple[str, str]]:
    refused, listed = None, False
    for (database,) in catalog.list_namespaces():
        try:
            pages = list(catalog.glue.get_paginator("get_tables").paginate(DatabaseName=database))
        except ClientError as error:
            if not _denied(error):
                raise
            refused = error
            log.warning("catalog %s: database %s may not be listed (%s)", catalog.name, database, _brief(error))
            continue
        listed = True
        for entry in (entry for page in pages for entry in page["TableList"]):
            parameters = entry.get("Parameters", {})
            if parameters.get(TABLE_TYPE, "").lower() == ICEBERG and (at := parameters.get(METADATA_LOCATION)):
                yield f"{database}.{entry['Name']}", at
    if refused and not listed:
        raise refused


def table_places(catalog: Catalog) -> dict[str, str]:
    """Return the location of each table of the catalog, by name, as far as it can be read.

    A catalog of SQL or Glue tells where all metadata files lie: in the table's folder `metadata`, unless the table
    says otherwise. Where one lies elsewhere, and with other catalogs, a process loads each table once. It remembers
    the locations of up to 100,000 tables, also of those that `open_table` opened. A table that moves afterwards is
    seen at its old location until the process loads it again.

    Raises:
        Unavailable: the catalog does not answer.
    """
    locations = metadata_locations(catalog)
    above = {name: location.rpartition("/")[0] for name, location in locations.items()}
    places = {name: folder.removesuffix(METADATA) for name, folder in above.items() if folder.endswith(METADATA)}
    names = [name for name in locations or find_tables(catalog, "*") if name not in places]
    asked = asked_ahead(catalog, lambda name: _place(catalog, name), names)
    return places | {name: place for name, answer in zip(names, asked, strict=True) if (place := answer.result())}


def asked_ahead(catalog: Catalog, question: Callable[[str], T], names: Iterable[str]) -> Iterator[Future[T]]:
    """Yields the answers about some tables in order, while the next ones are asked for.

    Several tables are asked for at once where the catalog's client serves many threads; Hive's does not. A caller that
    stops waiting leaves the threads behind, which do not keep the process from ending.

    Args:
        catalog: the tables' catalog.
        question: asks catalog or storage about a table, by its name.
        names: of the tables.
    """
    at_once = OPENED_AT_ONCE if isinstance(catalog, SIDE_BY_SIDE) or _is_glue(catalog) else 1
    waiting: deque[Future[T]] = deque()
    for name in names:
        waiting.append(_begun(partial(question, name)))
        if len(waiting) >= at_once:
            yield waiting.popleft()
    yield from waiting


def _begun(question: Callable[[], T]) -> Future[T]:
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # whatever it is, the one who asked gets it
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True, name="hardpack-ahead").start()
    return answer


def _place(catalog: Catalog, name: str) -> str:
    """Returns a table's location, remembered or by loading the table; empty when nobody can read it."""
    if remembered := _places.get(_key(catalog, name)):
        return remembered
    try:
        return open_table(catalog, name).location()
    except Unreadable as error:
        log.warning("where it lies is not known: %s", error)
        return ""


def _key(catalog: Catalog, name: str) -> tuple[str, str, str]:
    return catalog.name, str(catalog.properties.get("uri")), name


def _remember(catalog: Catalog, name: str, location: str) -> None:
    with _remembering:
        _places[_key(catalog, name)] = location
        while len(_places) > MOST_PLACES:
            del _places[next(iter(_places))]


def allowed_places(catalog: Catalog, table: str) -> list[str]:
    """Return the folders under which maintenance may delete files of a table.

    These are the catalog's warehouse and the folders of its property `hardpack.locations`. Where the warehouse is only
    a name, as with REST, the location that the catalog has for the table's namespace stands for it.

    Raises:
        Unavailable: the catalog does not answer.
    """
    places = [place.strip() for place in str(catalog.properties.get(LOCATIONS, "")).split(",")]
    warehouse = str(catalog.properties.get("warehouse", ""))
    if ":/" in warehouse or warehouse.startswith("/"):
        places.append(warehouse)
    else:
        with _answering(catalog), suppress(ice.NoSuchNamespaceError, ice.ForbiddenError, NotImplementedError):
            places.append(catalog.load_namespace_properties(tuple(table.split(".")[:-1])).get("location", ""))
    return [place for place in places if place]


@contextmanager
def _answering(catalog: Catalog) -> Iterator[None]:
    """Turn the errors of a catalog that does not answer into `Unavailable`."""
    try:
        yield
    except (*OUTAGES, SQLAlchemyError) as error:
        raise Unavailable(f"catalog {catalog.name!r} does not answer ({_brief(error)}); try again.") from None


def _brief(error: BaseException) -> str:
    return redacted(str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__)
