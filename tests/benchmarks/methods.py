"""Ways to keep the latest row of each key, all on the same files: hardpack's, the SQL one would write, and floors."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hardpack import Hardpack
from hardpack.home import default_home

from infra.jars import fetch_closure
from infra.kafka import KAFKA
from tests.benchmarks.datasets import T0, DataSet

NOW = T0 + 10**9


@dataclass(frozen=True)
class Run:
    """One method's turn: the library, the table's name, and what the data set is."""

    hp: Hardpack
    table: str
    data: DataSet
    scratch: Path

    @property
    def sql(self) -> Callable[[str], Any]:
        return self.hp.spark.sql

    @property
    def name(self) -> str:
        return f"{self.hp.catalog.name}.{self.table}"

    @property
    def first_dirty(self) -> int:
        return self.data.tail // self.data.logs

    @property
    def files(self) -> list[str]:
        table = self.hp.catalog.load_table(self.table)
        return [t.file.file_path.removeprefix("file://") for t in table.scan().plan_files()]

    @property
    def folder(self) -> Path:
        """Where the table's data files lie, those of other methods too."""
        return Path(self.hp.catalog.load_table(self.table).location().removeprefix("file://")) / "data"

    def rows(self) -> pa.Table:
        """Log and offset of every row, as pyiceberg reads the table."""
        return self.hp.catalog.load_table(self.table).scan(selected_fields=("partition", "offset")).to_arrow()


def hardpack(run: Run) -> None:
    """Phase one with its gate: plan, offset map, rewrite, audit, commit."""
    run.hp.clean(run.hp.plan(run.table, now=NOW, force=True))


def hardpack_in_portions(megabytes: int) -> Callable[[Run], None]:
    """Returns a way to run phase one with its gate in commits of at most so many MB of files."""

    def clean(run: Run) -> None:
        plan = run.hp.plan(run.table, now=NOW, force=True)
        run.hp.clean(plan.model_copy(update={"unit_bytes": megabytes * 1_000_000}))

    return clean


def allow_vectors(run: Run) -> None:
    """What the table's owner does once: format v3 and merge-on-read."""
    run.sql(f"alter table {run.name} set tblproperties ('format-version'='3', 'write.delete.mode'='merge-on-read')")


def row_number(run: Run) -> None:
    """A window over whole rows, and INSERT OVERWRITE of every partition."""
    columns = "partition, `offset`, timestamp, key, value"
    newest = "row_number() over (partition by partition, key order by `offset` desc)"
    run.sql("set spark.sql.sources.partitionOverwriteMode=dynamic")
    run.sql(
        f"insert overwrite {run.name} select {columns} from (select *, {newest} as n from {run.name}) where n = 1"
    ).collect()


def merge(run: Run) -> None:
    """MERGE, copy-on-write, against the newest offset of each key of the head."""
    head = f"{run.name} where `offset` >= {run.first_dirty}"
    newest = f"select partition, key, max(`offset`) as newest from {head} group by 1, 2"
    run.sql(
        f"merge into {run.name} t using ({newest}) s on t.partition = s.partition and t.key = s.key "
        "and t.`offset` < s.newest when matched then delete"
    ).collect()


def delete(run: Run) -> None:
    """DELETE, copy-on-write, of rows for which a newer one exists."""
    newer = f"select 1 from {run.name} s where s.partition = t.partition and s.key = t.key and s.`offset` > t.`offset`"
    run.sql(f"delete from {run.name} t where exists ({newer})").collect()


def bin_pack(run: Run) -> None:
    """rewrite_data_files of everything: reads and writes all rows once and drops none."""
    run.sql(
        f"call {run.hp.catalog.name}.system.rewrite_data_files(table => '{run.name}', "
        "options => map('rewrite-all', 'true'))"
    ).collect()


def in_duckdb(run: Run) -> None:
    """DuckDB in one process with two threads: newest offset per key, anti-join, one zstd file; no Iceberg commit."""
    with duckdb.connect() as db:
        db.execute("set threads = 2; set memory_limit = '8GB'; set preserve_insertion_order = false")
        db.execute(f"create view t as select * from read_parquet({run.files})")
        db.execute(
            f'create table newest as select partition, key, max("offset") o from t '
            f'where "offset" >= {run.first_dirty} group by all'
        )
        db.execute(
            "copy (select t.* from t left join newest n on t.partition = n.partition and t.key = n.key "
            f"where n.o is null or t.\"offset\" >= n.o) to '{run.scratch}/duckdb.parquet' "
            "(format parquet, compression zstd)"
        )


def forget_keys(run: Run) -> None:
    """Remove the filters that a turn before left, so that this one makes its own."""
    shutil.rmtree(run.folder.parent / "metadata" / "hardpack-keys", ignore_errors=True)


def small_segments(run: Run) -> None:
    """Let hardly a file be put together with others, so that a portion of 100 MB takes several."""
    forget_keys(run)
    with run.hp.catalog.load_table(run.table).transaction() as change:
        change.set_properties({"hardpack.segment.bytes": "32000000"})


PREPARE: Mapping[str, Callable[[Run], None]] = {
    "hardpack": forget_keys,
    "hardpack, small segments": small_segments,
    "hardpack, small segments, portions of 100 MB": small_segments,
    "hardpack, small segments, portions of 400 MB": small_segments,
    "hardpack, deletion vectors": allow_vectors,
}
"""What is done to the table before the clock runs."""
METHODS: Mapping[str, Callable[[Run], None]] = {
    "hardpack": hardpack,
    "hardpack, keys filtered before": hardpack,
    "hardpack, deletion vectors": hardpack,
    "hardpack, small segments": hardpack,
    "hardpack, small segments, portions of 100 MB": hardpack_in_portions(100),
    "hardpack, small segments, portions of 400 MB": hardpack_in_portions(400),
    "row_number + INSERT OVERWRITE": row_number,
    "MERGE copy-on-write": merge,
    "DELETE copy-on-write": delete,
    "bin-pack (drops nothing)": bin_pack,
    "DuckDB (no commit)": in_duckdb,
}


@dataclass(frozen=True)
class KafkaRun:
    """What Kafka's cleaner took for one log, on one thread."""

    cpu_seconds: float
    seconds: float
    rows: int
    left: int


def kafka_cleaner(run: Run) -> KafkaRun:
    """Kafka's own Cleaner on the records of log 0, in batches of 500 with zstd; filling the log is not counted."""
    jars = fetch_closure(default_home(), KAFKA)
    with tempfile.TemporaryDirectory(dir=run.scratch) as name:
        folder = Path(name)
        _write_records(run, folder / "records")
        source = Path(__file__).with_name("KafkaClean.java")
        path = f"{folder}:{jars}/*"
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(folder), str(source)], check=True)
        done = subprocess.run(
            ["java", "-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path,
             "org.apache.kafka.storage.internals.log.KafkaClean", str(folder / "records"), str(folder),
             str(run.first_dirty)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    cpu, wall, rows, left = done.stdout.split()
    return KafkaRun(float(cpu), float(wall), int(rows), int(left))


def _write_records(run: Run, path: Path) -> None:
    query = f'select key, value from read_parquet({run.files}) where partition = 0 order by "offset"'
    with duckdb.connect() as db, path.open("wb") as out:
        for batch in db.sql(query).to_arrow_reader(500_000):
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                out.write(np.int32(len(key)).tobytes() + key)
                out.write(np.int32(-1).tobytes() if value is None else np.int32(len(value)).tobytes() + value.encode())
