"""Spark's settings for a catalog, derived from pyiceberg's configuration of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from sqlalchemy.engine import make_url

from hardpack.errors import BadInput

CATALOGS = "spark.sql.catalog."
"""Prefix of the names of Spark's settings of catalogs, and so of credentials."""
SHARED = ("s3.", "client.", "gcs.", "adls.", "rest.", "header.")
"""Prefixes of properties that mean the same to pyiceberg and to Iceberg in Spark, or are for one of them alone."""
DELEGATION = "header.X-Iceberg-Access-Delegation"
"""Header that asks a REST catalog for storage credentials. pyiceberg sends it by itself, Iceberg's Java does not."""


def spark_conf(catalog: Catalog) -> dict[str, str]:
    """Returns Spark's settings for a catalog of pyiceberg's, under the catalog's name.

    Raises:
        BadInput: the catalog's type, or its way to sign in, has no counterpart in Spark here.
    """
    given = {k: str(v) for k, v in catalog.properties.items()}
    kind = given.get("type", "").lower() or ("rest" if given.get("uri", "").startswith("http") else "sql")
    out = {k: v for k, v in given.items() if k == "warehouse" or k.startswith(SHARED)}
    if kind == "sql":
        out |= {"type": "jdbc", "jdbc.schema-version": "V1"} | _jdbc(given.get("uri", ""))
    elif kind in ("rest", "hive", "glue"):
        passed = ("uri", "credential", "token", "scope", "audience", "resource", "oauth2-server-uri", "prefix")
        out |= {"type": kind} | {k: given[k] for k in (*passed, "glue.endpoint", "glue.id") if k in given}
        told = any(name.startswith("rest.auth.") for name in given)
        out |= _sign_in(catalog.name, catalog.properties.get("auth")) if kind == "rest" and not told else {}
        if kind == "rest" and DELEGATION.lower() not in map(str.lower, given):
            out[DELEGATION] = "vended-credentials"
    else:
        raise BadInput(f"catalog {catalog.name!r} is of type {kind!r}, expected sql, rest, hive or glue.")
    out |= _storage(given)
    # a cached table would be read at the snapshot of its first use
    out["cache-enabled"] = "false"
    prefix = f"{CATALOGS}{catalog.name}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {f"{prefix}.{k}": v for k, v in out.items() if v}


def _sign_in(catalog: str, auth: Any) -> dict[str, str]:
    """Returns the properties of Iceberg's Java for the way to sign in that pyiceberg's block `auth` names."""
    if not auth:
        return {}
    kind = auth.get("type")
    given = auth.get(kind) or {}
    if kind == "noop":
        return {"rest.auth.type": "none"}
    if kind == "basic":
        named = {f"rest.auth.basic.{name}": str(given.get(name, "")) for name in ("username", "password")}
        return {"rest.auth.type": "basic"} | named
    if kind == "oauth2":
        names = {"scope": "scope", "token_url": "oauth2-server-uri"}
        named = {names[name]: str(given[name]) for name in names if given.get(name)}
        return {"credential": f"{given.get('client_id', '')}:{given.get('client_secret', '')}"} | named
    raise BadInput(
        f"catalog {catalog!r} signs in by auth.type={kind}, which Spark has not; expected oauth2, basic or noop, or "
        "properties of Iceberg's Java under rest.auth. beside the block."
    )


def _storage(given: Mapping[str, str]) -> dict[str, str]:
    """Returns storage properties for Iceberg's S3FileIO that pyiceberg has under other names or takes for granted."""
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
