"""Spark Structured Streaming from a broker into a table, in a process of its own that may be killed.

python -m tests.sinks.stream SETTINGS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hardpack.spark.catalog_conf import spark_conf
from hardpack.spark.session import jar_paths
from pyiceberg.catalog import load_catalog

from infra.jars import Closure, fetch_closure
from infra.services.process import Service

ROOT = Path(__file__).resolve().parents[2]
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


class Stream(Service):
    """The process, which goes on from its checkpoint when it is started again.

    Args:
        folder: of its own.
        jars: folder for what is downloaded.
        lake: properties of the catalog.
        bootstrap: of the broker.
        topics: which to read.
        table: which to write, `namespace.table`.
    """

    def __init__(self, folder, jars, lake, bootstrap, topics, table):
        super().__init__(folder)
        self.checkpoint, settings = folder / "checkpoint", folder / "stream.json"
        own = [*jar_paths(), *sorted(fetch_closure(jars, SOURCE).glob("*.jar"))]
        told = {
            "lake": lake, "bootstrap": bootstrap, "topics": ",".join(topics), "table": table,
            "checkpoint": str(self.checkpoint), "jars": ",".join(map(str, own)),
        }  # fmt: skip
        settings.write_text(json.dumps(told))
        self.command = [sys.executable, "-m", "tests.sinks.stream", str(settings)]
        self.env = {"PYTHONPATH": str(ROOT)}

    def is_up(self):
        """Whether it has begun to read."""
        return (self.checkpoint / "offsets").exists()


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
