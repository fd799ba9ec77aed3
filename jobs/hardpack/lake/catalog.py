"""Catalogs: pyiceberg's own configuration is the one source; Spark's is derived from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

import pyiceberg.exceptions as ice
from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config
from sqlalchemy import select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from hardpack.errors import BadInput, Unavailable

CATALOGS = "spark.sql.catalog."
"""What the names of Spark's settings of catalogs, and so of credentials, begin with."""
SHARED = ("s3.", "client.", "gcs.", "adls.", "rest.", "header.")
"""How properties begin that mean the same to pyiceberg and to Iceberg in Spark, or are for one of them alone."""
SECRET = re.compile("secret|password|token|access.?key|api.?key|credential|authorization", re.IGNORECASE)
LOGIN = re.compile(r"://[^/@:]*:(?P<password>[^/@]+)@")
OUTAGES = (OperationalError, ice.RESTError, BotoCoreError, ClientError, OSError)
"""What a catalog or storage raises that does not answer, as far as it can be told from a wrong name."""
MISTAKES = (SQLAlchemyError, ValueError, ice.NoSuchNamespaceError)


def open_catalog(name: str, properties: Mapping[str, str] | None = None) -> Catalog:
    """The catalog as pyiceberg's configuration (file or environment) names it.

    Raises:
        BadInput: not configured.
        Unavailable: it does not answer.
    """
    try:
        catalog = load_catalog(name, **(properties or {}))
        catalog.list_namespaces()
    except (*OUTAGES, *MISTAKES) as error:
        kind = Unavailable if isinstance(error, OUTAGES) else BadInput
        raise kind(
            f"catalog {name!r} cannot be opened ({_brief(error)}); "
            f"name it in .pyiceberg.yaml or PYICEBERG_CATALOG__{name.upper()}__URI and see that it is up."
        ) from None
    return catalog


def open_table(catalog: Catalog, name: str) -> Table:
    """One table by its name `namespace.table`.

    Raises:
        BadInput: no such table.
        Unavailable: the catalog or the table's metadata cannot be read now.
    """
    try:
        return catalog.load_table(name)
    except OUTAGES as error:
        raise Unavailable(f"{name}: the table cannot be read ({_brief(error)}); try again.") from None
    except (ice.NoSuchTableError, ice.NoSuchNamespaceError, ice.NoSuchIdentifierError, ValueError):
        raise BadInput(
            f"{name}: no such table in catalog {catalog.name!r}; `hardpack status '*.*'` lists those there are."
        ) from None


def find_tables(catalog: Catalog, pattern: str) -> list[str]:
    """Names of the tables that a glob such as `db.*` matches, sorted; a plain name is returned as it is."""
    if not any(c in pattern for c in "*?["):
        return [pattern]
    names: list[str] = []
    for namespace in catalog.list_namespaces():
        names.extend(".".join(identifier) for identifier in catalog.list_tables(namespace))
    return sorted(n for n in names if fnmatchcase(n, pattern))


def metadata_locations(catalog: Catalog) -> dict[str, str]:
    """Where the current metadata of every table lies, by its name, in one question to the catalog.

    Metadata never changes, so a table whose location is the same is the same. Empty when the catalog tells it only
    table by table, as those of REST do.

    Raises:
        Unavailable: it does not answer.
    """
    if not isinstance(catalog, SqlCatalog):
        return {}
    columns = IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location
    try:
        with catalog.engine.connect() as connection:
            found = connection.execute(select(*columns).where(IcebergTables.catalog_name == catalog.name)).all()
    except OUTAGES as error:
        raise Unavailable(f"catalog {catalog.name!r} does not answer ({_brief(error)}); try again.") from None
    return {f"{namespace}.{table}": location for namespace, table, location in found if location}


def table_places(catalog: Catalog) -> dict[str, str]:
    """Where each table of the catalog lies, by name: the folder of its metadata, else what the table itself says.

    Raises:
        Unavailable: the catalog does not answer.
    """
    places = {}
    known = metadata_locations(catalog)
    for name in find_tables(catalog, "*.*"):
        if name in known:
            places[name] = known[name].rpartition("/metadata/")[0] or known[name]
        else:
            places[name] = open_table(catalog, name).location()
    return places


def _brief(error: BaseException) -> str:
    return redacted(str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__)


def redacted(text: str) -> str:
    """Text in which no credential of pyiceberg's configuration stands any more, of whichever catalog."""
    try:
        catalogs = Config().config.get("catalog", {})
    except ValueError:
        return text
    for properties in catalogs.values() if isinstance(catalogs, dict) else ():
        text = without_secrets(text, properties if isinstance(properties, dict) else {})
    return text


def without_secrets(text: str, properties: Mapping[str, object]) -> str:
    """Text in which no credential of a catalog's properties stands any more."""
    hidden = {str(value) for name, value in properties.items() if SECRET.search(name)}
    hidden |= {found["password"] for value in properties.values() if (found := LOGIN.search(str(value)))}
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def spark_conf(catalog: Catalog) -> dict[str, str]:
    """Spark's settings for the same catalog, under the same name.

    Raises:
        BadInput: a catalog type for which Spark has no counterpart here.
    """
    given = {k: str(v) for k, v in catalog.properties.items()}
    kind = given.get("type") or ("rest" if given.get("uri", "").startswith("http") else "sql")
    out = {k: v for k, v in given.items() if k == "warehouse" or k.startswith(SHARED)}
    if kind == "sql":
        out |= {"type": "jdbc", "jdbc.schema-version": "V1"} | _jdbc(given.get("uri", ""))
    elif kind in ("rest", "hive", "glue"):
        passed = ("uri", "credential", "token", "scope", "oauth2-server-uri", "prefix", "glue.endpoint", "glue.id")
        out |= {"type": kind} | {k: given[k] for k in passed if k in given}
    else:
        raise BadInput(f"catalog {catalog.name!r} is of type {kind!r}, expected sql, rest, hive or glue.")
    out |= _storage(given)
    # a cached table would be read at the snapshot of its first use
    out["cache-enabled"] = "false"
    prefix = f"{CATALOGS}{catalog.name}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {f"{prefix}.{k}": v for k, v in out.items() if v}


def _storage(given: Mapping[str, str]) -> dict[str, str]:
    """What pyiceberg names otherwise than Iceberg's S3FileIO does, or takes for granted."""
    out: dict[str, str] = {}
    if region := given.get("s3.region") or given.get("client.region") or given.get("glue.region"):
        out["client.region"] = region
    for name in ("access-key-id", "secret-access-key", "session-token"):
        if value := given.get(f"s3.{name}") or given.get(f"client.{name}"):
            out[f"s3.{name}"] = value
    if "s3.endpoint" in given and "s3.path-style-access" not in given:
        virtual = given.get("s3.force-virtual-addressing", "").lower() == "true"
        out["s3.path-style-access"] = "false" if virtual else "true"
    if given.get("warehouse", "").startswith("s3://"):
        out["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
    return out


def _jdbc(uri: str) -> dict[str, str]:
    url = make_url(uri)
    backend = url.get_backend_name()
    if backend == "sqlite":
        # Without a time-out a commit fails at once while another process holds the catalog file.
        return {"uri": f"jdbc:sqlite:{url.database}?busy_timeout=30000"}
    out = {"uri": f"jdbc:{backend}://{url.host}:{url.port or 5432}/{url.database}"}
    if url.username:
        out["jdbc.user"] = url.username
    if url.password:
        out["jdbc.password"] = str(url.password)
    return out
