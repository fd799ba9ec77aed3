"""The Spark session: catalog settings from pyiceberg's, the rest small and explicit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpack.errors import BadInput, HardpackError, Unavailable
from hardpack.failures import FULL, java_error, sentence
from hardpack.home import default_home
from hardpack.lake.catalog import CATALOGS, SECRET, spark_conf

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}",
    "spark.ui.enabled": "false",
    # Spark's own misses some
    "spark.redaction.regex": f"(?i){SECRET.pattern}",
    "spark.ui.showConsoleProgress": "false",
    # noting the line of Python behind each expression is a third of a small pass
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.daemon.module": "hardpack.spark.daemon",
    # a worker above it, whatever it holds, writes what it gathers to disk in small compressed parts
    "spark.python.worker.memory": "2g",
    # over TCP a small task waits for a delayed acknowledgement
    "spark.python.unix.domain.socket.enabled": "true",
    # read only when the driver's JVM is still to start; spark-submit has its own option
    "spark.driver.memory": os.environ.get("HARDPACK_DRIVER_MEMORY", "4g"),
}
_STARTED: dict[str, str] = {}
"""What this process started its JVM with; to the next session there it looks as if a user had given it."""


def jar_paths() -> list[Path]:
    """Iceberg's runtime and the JDBC driver from the home's folder `jars`; none when Spark brings them itself."""
    return sorted((default_home() / "jars").glob("*.jar"))


def open_session(catalog: Catalog, master: str | None = None) -> SparkSession:
    """The running session, else a new one, that knows the catalog under its own name.

    Settings that spark-submit or spark-defaults gave win over the defaults here.

    Raises:
        BadInput: Java is missing, Iceberg's runtime is not on the class path, or the master is no address.
        Unavailable: the master does not answer, or Spark cannot open the catalog.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # else the workers are whichever python3 comes first on PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # under spark-submit the JVM is up and knows what was given; without this it would be overridden
        SparkContext._ensure_initialized()
    wanted = {
        "spark.app.name": "hardpack",
        "spark.master": master or os.environ.get("HARDPACK_SPARK_MASTER", "local[2]"),
        "spark.jars": ",".join(map(str, jar_paths())),
    }
    wanted |= DEFAULTS | spark_conf(catalog)
    given = SparkConf()
    conf = {k: v for k, v in wanted.items() if v and (not given.contains(k) or given.get(k) == _STARTED.get(k))}
    try:
        if SparkContext._gateway is None:
            # what a JVM is started with stands on its command line for all to see, so it learns of credentials later
            _STARTED.update((k, v) for k, v in conf.items() if CATALOGS not in k)
            SparkContext._ensure_initialized(conf=SparkConf().setAll(_STARTED.items()))
        spark = SparkSession.builder.config(map=conf).getOrCreate()
    except Exception as error:
        raise _not_started(error, conf.get("spark.master") or given.get("spark.master", "")) from error
    jvm: Any = spark._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable("org.apache.iceberg.spark.SparkCatalog"):
        raise BadInput(
            "Iceberg's Spark runtime is not on the class path; `make jars` fetches it into HARDPACK_HOME/jars."
        )
    state: Any = spark._jsparkSession.sessionState()
    try:
        # else Iceberg looks for the table in Spark's own catalog, and says that it does not like its name
        state.catalogManager().catalog(catalog.name)
    except Exception as error:
        why = java_error(error)[1]
        raise Unavailable(
            f"Spark cannot open catalog {catalog.name!r} ({why}); `hardpack doctor` tries both engines."
        ) from error
    return spark


def _not_started(error: Exception, master: str) -> HardpackError:
    from pyspark import SparkContext

    why = java_error(error)[1] or type(error).__name__
    if FULL in str(error):
        return sentence(error)
    if SparkContext._gateway is None:
        return BadInput(f"Spark does not start ({why}); it needs Java 17 or 21 on PATH or JAVA_HOME.")
    if "Master URL" in str(error):
        return BadInput(f"Spark does not start ({why}); {master!r} is no master, expected one as spark://HOST:7077.")
    return Unavailable(f"Spark does not start ({why}); see that its master {master} is up, then try again.")


def versions(spark: SparkSession) -> str:
    """What runs where: Spark and its master, Java, Iceberg's runtime."""
    jvm: Any = spark._jvm
    java, iceberg = jvm.java.lang.System.getProperty("java.version"), jvm.org.apache.iceberg.IcebergBuild.version()
    return f"Spark {spark.version} on {spark.sparkContext.master}, Java {java}, Iceberg {iceberg}"
