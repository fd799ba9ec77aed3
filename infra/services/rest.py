"""An Iceberg REST catalog: the server of Iceberg's own compatibility tests, put together from Maven Central.

Nessie's runner comes whole from the same place and was tried first. It shows only the newest snapshot of a table, so
that a pass meets a conflict whenever another writer has appended meanwhile. It also asks for signatures of S3 requests
at an address that Iceberg 1.12 does not use. Polaris is published as a library only.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pyspark
from hardpack.spark.jars import java_command

from infra.jars import Closure, fetch_closure
from infra.services.process import Service
from infra.services.storage import REGION, Storage

# 1.11.0 is the newest version whose test fixtures are published
SERVER = Closure(
    "iceberg-rest",
    """
<dependency org="org.apache.iceberg" name="iceberg-open-api" rev="1.11.0" conf="default->master">
<artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/></dependency>
<dependency org="org.apache.iceberg" name="iceberg-core" rev="1.11.0" conf="default->default">
<artifact name="iceberg-core" type="jar" ext="jar"/>
<artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/></dependency>
<dependency org="org.apache.iceberg" name="iceberg-aws" rev="1.11.0" conf="default->default"/>
<dependency org="org.apache.iceberg" name="iceberg-aws-bundle" rev="1.11.0" conf="default->master"/>
<dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="12.1.14" conf="default->default"/>
<dependency org="org.eclipse.jetty.compression" name="jetty-compression-server" rev="12.1.14" conf="default->default"/>
<dependency org="org.eclipse.jetty.compression" name="jetty-compression-gzip" rev="12.1.14" conf="default->default"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="2.0.17" conf="default->default"/>
<dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0" conf="default->master"/>
""",
    "f4fee3cb395e4bb74e05fc6933e2d335333f654ac5058d1f64ee1478b5cfe8b6",
)
MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


class Rest(Service):
    """One catalog that keeps what it knows in SQLite; the server listens on every address, not on loopback alone.

    Args:
        folder: of its own.
        jars: folder for what is downloaded.
        storage: where the warehouse lies.
        warehouse: `s3://bucket/prefix`.
    """

    def __init__(self, folder: Path, jars: Path, storage: Storage, warehouse: str) -> None:
        super().__init__(folder)
        self.warehouse = warehouse
        catalog = {
            "rest.port": str(self.port),
            "warehouse": warehouse,
            "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=30000",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": REGION,
            **storage.properties,
        }
        # as the server reads its environment: two underscores for a hyphen, one for a dot
        self.env = {
            "CATALOG_" + name.replace("-", "__").replace(".", "_").upper(): value for name, value in catalog.items()
        }
        hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
        path = ":".join([f"{fetch_closure(jars, SERVER)}/*", *map(str, hadoop)])
        self.command = [java_command(), "-Xmx512m", "-cp", path, MAIN]

    @property
    def properties(self) -> dict[str, str]:
        """Properties by which pyiceberg opens this REST catalog; those of its storage are to be added."""
        return {"type": "rest", "uri": f"http://127.0.0.1:{self.port}/", "warehouse": self.warehouse}

    def is_up(self) -> bool:
        """Returns whether the server tells its configuration."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/v1/config", timeout=5).is_success
        except httpx.HTTPError:
            return False
