"""The Spark session: catalog settings from pyiceberg's, the rest small and explicit."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpack.errors import BadInput, HardpackError, Unavailable
from hardpack.failures import FULL, as_hardpack_error, java_error
from hardpack.home import default_home, trusted
from hardpack.spark.catalog_conf import CATALOGS, spark_conf
from hardpack.spark.java_start import MADE_AT_EXIT, found_by, java_options
from hardpack.spark.shuffles import BY_SIZE, LEAST, SHUFFLE_PARTITIONS
from hardpack.spark.versions import fit_of, installed_spark
from hardpack.table.redaction import SECRET

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyiceberg.catalog import Catalog
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
LOGGING = f'"-Dlog4j2.configurationFile=file:{Path(__file__).with_name("log4j2.properties")}"'
DEFAULTS = {
    "spark.ui.enabled": "false",
    # Spark's own pattern misses some secrets
    "spark.redaction.regex": f"(?i){SECRET.pattern}",
    # Spark would tell of a slow listener with all settings of its job, those of the catalog among them
    "spark.scheduler.listenerbus.logSlowEvent": "false",
    "spark.ui.showConsoleProgress": "false",
    # noting the line of Python behind each expression is a third of a small pass
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    SHUFFLE_PARTITIONS: str(LEAST),
    "spark.python.daemon.module": "hardpack.spark.daemon",
    # a worker whose memory is above it, whatever it holds, writes what it gathers to disk in small compressed parts
    "spark.python.worker.memory": "2g",
    # over TCP a small task waits for a delayed acknowledgement
    "spark.python.unix.domain.socket.enabled": "true",
    # read only when the driver's JVM is still to start; spark-submit has its own option
    "spark.driver.memory": os.environ.get("HARDPACK_DRIVER_MEMORY", "4g"),
}
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
RUNTIME = re.compile(r"iceberg-spark-runtime-(?P<spark>[0-9.]+)_(?P<scala>[0-9.]+)-")
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""The class that teaches Spark 3 the statement CALL, which Spark 4 knows by itself."""
_STARTED: dict[str, str] = {}
"""Settings with which this process started its JVM; to the next session there they look as if a user had given them."""


def jar_paths() -> list[Path]:
    """Returns Iceberg's runtime and the JDBC driver from the home's folder `jars`; none when Spark brings them itself.

    Raises:
        BadInput: other users may write to them.
    """
    jars = sorted((default_home() / "jars").glob("*.jar"))
    if jars:
        trusted(default_home() / "jars")
    # runtimes for other versions of Spark may lie beside
    spark = installed_spark()
    return [trusted(jar) for jar in jars if not spark or _is_for(jar.name, spark)]


def _is_for(jar: str, spark: str) -> bool:
    runtime = RUNTIME.match(jar)
    return runtime is None or runtime["spark"] == fit_of(spark).spark


@cache
def _sockets() -> str:
    """Returns a folder of this process alone for the driver's sockets, which ask for no password."""
    folder = tempfile.mkdtemp(prefix="hardpack-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def open_session(catalog: Catalog, short_life: bool = False) -> SparkSession:
    """Returns the running session, else a new one, that knows the catalog under its own name.

    Settings that spark-submit or spark-defaults gave win over the defaults here.

    Args:
        catalog: pyiceberg's.
        short_life: whether the process ends with one verb, so that Java need not make its best code.

    Raises:
        BadInput: Java is missing, Iceberg's runtime is not on the class path, or the master is no address.
        Unavailable: the master does not answer, or Spark cannot open the catalog.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # else the workers are whichever python3 comes first on PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # under spark-submit the JVM is up and knows what settings were given; without this they would be overridden
        SparkContext._ensure_initialized()
    wanted = {
        "spark.app.name": "hardpack",
        "spark.master": os.environ.get("HARDPACK_SPARK_MASTER", "local[2]"),
    }
    jars, given = jar_paths(), _given(SparkConf())
    # a master that spark-submit was given wins, and its executors have to be sent the jars
    wanted |= found_by(jars, given.get("spark.master", wanted["spark.master"]))
    wanted["spark.driver.extraJavaOptions"] = f"{LOGGING} {java_options(jars, short_life)}".rstrip()
    wanted |= DEFAULTS | {"spark.python.unix.domain.socket.dir": _sockets()} | spark_conf(catalog)
    if needs_extensions(installed_spark()):
        wanted["spark.sql.extensions"] = EXTENSIONS
    conf = {k: v for k, v in wanted.items() if v and k not in given}
    conf |= {BY_SIZE: "true"} if SHUFFLE_PARTITIONS in conf else {}
    try:
        if SparkContext._gateway is None:
            # all users can see what a JVM is started with on its command line, so it learns of credentials later
            _STARTED.update((k, v) for k, v in conf.items() if CATALOGS not in k)
            SparkContext._ensure_initialized(gateway=_start_jvm(SparkConf().setAll(_STARTED.items())))
        spark = SparkSession.builder.config(map=conf).getOrCreate()
    except Exception as error:
        raise _not_started(error, conf.get("spark.master") or given.get("spark.master", "")) from error
    fit(spark)
    state: Any = spark._jsparkSession.sessionState()
    try:
        # without this look Iceberg would search Spark's own catalog for the table, and complain of the table's name
        state.catalogManager().catalog(catalog.name)
    except Exception as error:
        why = java_error(error)[1]
        raise Unavailable(
            f"Spark cannot open catalog {catalog.name!r} ({why}); `hardpack doctor` tries both engines."
        ) from error
    return spark


def _given(conf: SparkConf) -> dict[str, str]:
    """Returns the settings that users gave, without those that an earlier session of this process was started with."""
    return {k: v for k, v in conf.getAll() if v != _STARTED.get(k)}


def fit(spark: SparkSession) -> None:
    """Checks that a session runs tested versions, and keeps it from substituting variables in hardpack's SQL.

    Iceberg's classes that hardpack calls are internal. With those of another version a staged read may silently be of
    the whole table.

    Raises:
        BadInput: another version of Spark, Scala or Iceberg's runtime, or no such runtime.
    """
    tested = fit_of(spark.version)
    jvm: Any = spark._jvm
    utils = jvm.org.apache.spark.util.Utils
    tested.check("Scala", jvm.scala.util.Properties.versionNumberString(), tested.scala)
    if not utils.classIsLoadable(SPARK_CATALOG):
        raise BadInput(
            "Iceberg's Spark runtime is not on the class path; `hardpack jars` fetches it into HARDPACK_HOME/jars."
        )
    tested.check_iceberg(jvm.org.apache.iceberg.IcebergBuild.version())
    source = utils.classForName(SPARK_CATALOG, True, False).getProtectionDomain().getCodeSource()
    if source is not None and (runtime := RUNTIME.search(source.getLocation().toString())):
        tested.check("Iceberg's runtime for Spark", runtime["spark"], tested.spark)
        tested.check("Iceberg's runtime for Scala", runtime["scala"], tested.scala)
    if needs_extensions(spark.version) and EXTENSIONS not in spark.conf.get("spark.sql.extensions", ""):
        raise BadInput(f"Spark {spark.version} knows no CALL, expected spark.sql.extensions to name {EXTENSIONS}.")
    # Spark would substitute variables in texts that hardpack has quoted already
    spark.conf.set("spark.sql.variable.substitute", "false")


def needs_extensions(spark: str) -> bool:
    """Returns whether this version of Spark has no statement CALL of its own."""
    return spark.startswith("3.")


def _start_jvm(conf: SparkConf) -> JavaGateway:
    """Starts Java. Its own warnings are no part of a verb's output: they go nowhere, or with --verbose to stderr."""
    from pyspark.java_gateway import launch_gateway

    verbose = log.isEnabledFor(logging.INFO)
    gateway = launch_gateway(conf, {} if verbose else {"stderr": subprocess.DEVNULL})
    if MADE_AT_EXIT in os.environ:
        # waits until Java has ended and made the archive, as whoever wants it expects it once this process has ended
        atexit.register(lambda: gateway.proc.communicate())
    return gateway


def _not_started(error: Exception, master: str) -> HardpackError:
    from pyspark import SparkContext

    why = java_error(error)[1] or type(error).__name__
    if FULL in str(error):
        return as_hardpack_error(error)
    if SparkContext._gateway is None:
        return BadInput(
            f"Spark does not start ({why}); it needs Java 17 or 21 on PATH or JAVA_HOME; --verbose shows more."
        )
    if "Master URL" in str(error):
        return BadInput(f"Spark does not start ({why}); {master!r} is no master, expected one as spark://HOST:7077.")
    return Unavailable(f"Spark does not start ({why}); see that its master {master} is up, then try again.")


def versions(spark: SparkSession) -> str:
    """Returns a text of the versions of Spark, Java and Iceberg's runtime, and of Spark's master."""
    jvm: Any = spark._jvm
    java, iceberg = jvm.java.lang.System.getProperty("java.version"), jvm.org.apache.iceberg.IcebergBuild.version()
    return f"Spark {spark.version} on {spark.sparkContext.master}, Java {java}, Iceberg {iceberg}"
