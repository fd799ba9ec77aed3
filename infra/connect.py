"""A real Kafka Connect worker with Iceberg's own sink, which writes a broker's topic into a table."""

import json
import urllib.request
from pathlib import Path

from hardpack.spark.jars import java_command

from infra.jars import Closure, fetch_closure
from infra.services.process import Service

MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"

CONNECT = Closure(
    "connect",
    """
<dependency org="org.apache.iceberg" name="iceberg-kafka-connect" rev="1.12.0" conf="default->default"/>
<dependency org="org.apache.iceberg" name="iceberg-kafka-connect-transforms" rev="1.12.0" conf="default->default"/>
<dependency org="org.apache.iceberg" name="iceberg-parquet" rev="1.12.0" conf="default->default"/>
<dependency org="org.apache.kafka" name="connect-runtime" rev="4.1.0" conf="default->default"/>
<dependency org="org.apache.kafka" name="connect-json" rev="4.1.0" conf="default->default"/>
<dependency org="org.apache.hadoop" name="hadoop-client-api" rev="3.4.1" conf="default->default"/>
<dependency org="org.apache.hadoop" name="hadoop-client-runtime" rev="3.4.1" conf="default->default"/>
<dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0" conf="default->default"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="2.0.16" conf="default->default"/>
<override org="com.fasterxml.jackson.core" module="jackson-core" rev="2.19.0"/>
<override org="com.fasterxml.jackson.core" module="jackson-databind" rev="2.19.0"/>
<override org="com.fasterxml.jackson.core" module="jackson-annotations" rev="2.19.0"/>
""",
    "e207b07c65828d482b4a060743f7e7a6b8511e1dc26e49f7dd93059b13deb176",
)
WORKER = """bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
consumer.session.timeout.ms=10000
consumer.heartbeat.interval.ms=2000
listeners=http://127.0.0.1:{port}
plugin.path=
plugin.discovery=only_scan
"""
SINK = """name=iceberg
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
tasks.max=2
topics={topic}
iceberg.tables={table}
iceberg.tables.auto-create-enabled=true
iceberg.control.topic=control-iceberg
iceberg.kafka.session.timeout.ms=10000
iceberg.kafka.heartbeat.interval.ms=2000
iceberg.control.commit.interval-ms={interval_ms}
iceberg.control.commit.timeout-ms=10000
iceberg.catalog={catalog}
iceberg.catalog.catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog
iceberg.catalog.uri=jdbc:sqlite:{database}?busy_timeout=30000
iceberg.catalog.jdbc.user=
iceberg.catalog.jdbc.schema-version=V1
iceberg.catalog.warehouse={warehouse}
iceberg.catalog.io-impl=org.apache.iceberg.hadoop.HadoopFileIO
transforms=meta
transforms.meta.type=org.apache.iceberg.connect.transforms.KafkaMetadataTransform
transforms.meta.nested={nested}
"""


class Connect(Service):
    """One standalone worker. Broker and table keep how far it has read, so that a new worker goes on from there.

    Args:
        folder: of its own.
        jars: folder for what is downloaded.
        sink: bootstrap, topic, table, interval_ms, catalog, database, warehouse and nested.
    """

    patience_s = 120

    def __init__(self, folder: Path, jars: Path, **sink: str) -> None:
        super().__init__(folder)
        worker, connector = folder / "worker.properties", folder / "sink.properties"
        worker.write_text(WORKER.format(folder=folder, port=self.port, **sink))
        connector.write_text(SINK.format(**sink))
        path = f"{fetch_closure(jars, CONNECT)}/*"
        self.command = [java_command(), "-Xmx1g", "-cp", path, MAIN, str(worker), str(connector)]

    def is_up(self) -> bool:
        """Returns whether the connector and its tasks run."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/connectors/iceberg/status", timeout=5) as told:
                status = json.load(told)
        except OSError:
            return False
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        return len(states) > 1 and set(states) == {"RUNNING"}
