"""A real Kafka Connect worker with Iceberg's own sink, which writes a broker's topic into a table."""

import json
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from urllib.error import URLError

from hardpack.home import default_home

from infra.jars import Closure, fetch_closure
from infra.services.process import free_ports

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


class Worker:
    """One standalone worker, which lives as long as the `with` block and may be killed and started again.

    Its place in the topic is the broker's and the table's to keep, so that a new worker goes on where one ended.
    """

    def __init__(self, home: Path | None = None, **sink: str) -> None:
        """Names what the sink is about.

        Args:
            home: where the jars are kept.
            sink: bootstrap, topic, table, interval_ms, catalog, database, warehouse and nested.
        """
        self._jars, self._sink = fetch_closure(home or default_home(), CONNECT), sink
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="hardpack-connect-")))
            self.log = self.folder / "connect.log"
            undo.callback(self.kill)
            self._start()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def _start(self) -> None:
        (self._port,) = free_ports(1)
        worker, sink = self.folder / "worker.properties", self.folder / "sink.properties"
        worker.write_text(WORKER.format(folder=self.folder, port=self._port, **self._sink))
        sink.write_text(SINK.format(**self._sink))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = ["java", "-Xmx1g", "-cp", f"{self._jars}/*", main, str(worker), str(sink)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it without a word, as a machine does that goes down."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Kill it, and start it anew."""
        self.kill()
        self._start()

    def states(self) -> list[str]:
        """Returns the states of the connector and its tasks, none while the worker is not up."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/connectors/iceberg/status", timeout=5) as told:
                status = json.load(told)
        except (URLError, TimeoutError, ConnectionError):
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def wait_up(self, seconds: float) -> None:
        """Wait until all of it runs.

        Raises:
            RuntimeError: it does not.
        """
        end = time.monotonic() + seconds
        while set(self.states()) != {"RUNNING"} or len(self.states()) < 2:
            if time.monotonic() > end:
                said = " ".join(self.log.read_text().strip().splitlines()[-3:])
                raise RuntimeError(f"the sink does not run ({said}); see its log {self.log}.")
            time.sleep(0.5)
