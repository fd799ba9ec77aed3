"""Spark Structured Streaming from a broker into a table, in a process of its own that may be killed.

python -m tests.sinks.stream SETTINGS
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hardpack.home import default_home
from hardpack.spark.catalog_conf import spark_conf
from hardpack.spark.session import jar_paths
from pyiceberg.catalog import load_catalog

from infra.jars import Closure, fetch_closure

SOURCE = Closure(
    "spark-kafka",
    """
<dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.1.1" conf="default->master"/>
<dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.1.1" conf="default->master"/>
<dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.1" conf="default->master"/>
<dependency org="org.apache.commons" name="commons-pool2" rev="2.12.1" conf="default->master"/>
""",
    "feef2d3946b9cf9eb7da50f3ceb63cd516ac38cb7ccf5d36b38ac19d49f4a8ce",
)


class Stream:
    """The process, which lives as long as the `with` block; it goes on from its checkpoint when started again."""

    def __init__(self, folder, lake, bootstrap, topics, table):
        jars = fetch_closure(default_home(), SOURCE)
        self.log, self.settings = folder / "stream.log", folder / "stream.json"
        self.settings.write_text(
            json.dumps(
                {
                    "lake": lake, "bootstrap": bootstrap, "topics": ",".join(topics), "table": table,
                    "checkpoint": str(folder / "checkpoint"),
                    "jars": ",".join(map(str, [*jar_paths(), *sorted(jars.glob("*.jar"))])),
                }
            )
        )  # fmt: skip

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *error):
        self.kill()

    def _start(self):
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "tests.sinks.stream", str(self.settings)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self):
        """End it and its JVM without a word."""
        subprocess.run(["pkill", "-KILL", "-s", str(self.process.pid)], check=False)
        self.process.wait()

    def restart(self):
        """Kill it, and start it anew."""
        self.kill()
        self._start()


def main(settings):
    """Stream until somebody ends it."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    conf = spark_conf(load_catalog("hardpack", **settings["lake"])) | {
        "spark.jars": settings["jars"], "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }  # fmt: skip
    spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", settings["topics"])
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = (
        rows.writeStream.format("iceberg")
        .outputMode("append")
        .trigger(processingTime="1 second")
        .option("checkpointLocation", settings["checkpoint"])
    )
    while True:
        try:
            writer.toTable(f"hardpack.{settings['table']}").awaitTermination()
        except StreamingQueryException as error:
            # Spark's Kafka source has no metrics of a batch that it takes up again, so that the query ends behind it
            if "scala.Option.get()" not in str(error):
                raise
            print("the query ends behind a batch that it took up again; it is started anew", flush=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
