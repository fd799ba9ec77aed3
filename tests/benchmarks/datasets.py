"""Deterministic data sets: topics with a clean tail (one row a key, the checkpoint behind it) and a head.

Keys are 32 hex digits of a hash, so that neither order nor bounds help; values 100 hex digits, which zstd can
only halve.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hardpack.demo.topic import create_topic
from hardpack.rules.model import LogState, SnapshotRef
from hardpack.table.state import STATE_PROPERTY, write_state
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow

T0 = 1_700_000_000_000
SEED = 20_240_229
CATALOG = "bench"

Keys = Callable[["DataSet", int, np.random.Generator], np.ndarray]
"""Key numbers of one log's head, by data set and log."""


@dataclass(frozen=True)
class DataSet:
    """Sizes of a data set. Rows are of the whole table; each log has the same share."""

    name: str
    logs: int
    tail: int
    head: int
    head_keys: int
    """Distinct keys that the head draws from."""
    file_rows: int
    draw: str = "uniform"
    """How: `uniform` among all tail keys, `local` among the first of them, `zipf`, `new` (none of the tail's)."""
    tombstones: bool = False
    near: float = 0.1
    """Share of the tail that a `local` head's keys lie in."""

    def scaled(self, factor: float) -> DataSet:
        """Returns a set with so many times the rows; files keep their size where a head lies in all of them."""
        at: dict[str, Any] = {n: max(self.logs, int(getattr(self, n) * factor)) for n in ("tail", "head", "head_keys")}
        if self.draw == "local":
            at["file_rows"] = max(1, int(self.file_rows * min(factor, 1)))
        return replace(self, name=f"{self.name}_x{factor:g}".replace(".", "p"), **at)


M = 1_000_000
UNIFORM = DataSet("uniform_half", 4, 10 * M, 10 * M, 3_670_000, 500_000)
LOCAL = DataSet("local_5", 4, 19 * M, 1 * M, 500_000, 475_000, draw="local")
SPARSE = DataSet("uniform_5", 4, 19 * M, 1 * M, 200_000, 475_000)
ZIPF = DataSet("zipf", 4, 10 * M, 10 * M, 2_500_000, 500_000, draw="zipf")
TOMBSTONES = DataSet("tombstones", 4, 10 * M, 10 * M, 10 * M, 500_000, tombstones=True)
MANY = DataSet("many_small", 500, 5 * M, 5 * M, 1_835_000, 10_000)
ONE = DataSet("one_log", 1, 5 * M, 5 * M, 1_835_000, 500_000)
LONG_TAIL = DataSet("local_tail_4", 4, 76 * M, 1 * M, 500_000, 475_000, draw="local", near=0.025)
KEYS = DataSet("keys_100m", 4, 4, 110 * M, 100 * M, 1_000_000, draw="new", tombstones=True)
SHARES = tuple(
    DataSet(f"head_{share}", 4, M * (100 - share) // 10, M * share // 10, 36_700 * share, 500_000)
    for share in (2, 10, 25, 50)
)
"""Ten million rows, so many of a hundred of them in the head."""
ALL = {d.name: d for d in (UNIFORM, LOCAL, SPARSE, ZIPF, TOMBSTONES, MANY, ONE, LONG_TAIL, KEYS, *SHARES)}


def open_lake(folder: Path) -> Catalog:
    """The catalog of a folder of data sets."""
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder}/catalog.db"
    return load_catalog(CATALOG, type="sql", uri=uri, warehouse=f"file://{folder}/warehouse")


def build(data: DataSet, folder: Path, lake: Catalog | None = None) -> str:
    """Write a data set once; gives the location of its table's metadata.

    Args:
        data: what it holds.
        folder: where it is noted that it is there.
        lake: the catalog to make it in, None for the folder's own.
    """
    done = folder / f"{data.name}.json"
    wanted = json.dumps(asdict(data))
    if done.exists() and json.loads(done.read_text())["data"] == json.loads(wanted):
        return str(json.loads(done.read_text())["metadata"])
    catalog = lake or open_lake(folder)
    name = f"bench.{data.name}"
    with suppress(NoSuchTableError):
        catalog.drop_table(name)
    shutil.rmtree(folder / "warehouse" / "bench" / data.name, ignore_errors=True)
    settings = {"hardpack.active.segment": "none"}
    if data.draw == "local":
        settings["hardpack.key.filter.min.rows"] = str(min(data.file_rows, 100_000))
    table = create_topic(catalog, name, settings)
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    share = data.tail // data.logs
    with table.transaction() as pending, duckdb.connect() as db:
        tails = [np.random.default_rng([SEED, log]).permutation(share) for log in range(data.logs)]
        for rows in _rows(db, data, 0, tails, False, schema):
            pending.append(rows)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    made = SnapshotRef(snapshot.snapshot_id, snapshot.sequence_number or 0)
    state = LogState(checkpoint=share, log_start=0, log_end=share, snapshot=made)
    with table.transaction() as pending, duckdb.connect() as db:
        pending.set_properties({STATE_PROPERTY: write_state({str(log): state for log in range(data.logs)})})
        heads = [_head(data, log) for log in range(data.logs)]
        for rows in _rows(db, data, share, heads, data.tombstones, schema):
            pending.append(rows)
    done.write_text(json.dumps({"data": asdict(data), "metadata": table.metadata_location}))
    return str(table.metadata_location)


def copy_of(metadata: str, folder: Path, name: str, lake: Catalog | None = None) -> str:
    """Another table of the same files, to be changed without changing the data set."""
    catalog = lake or open_lake(folder)
    full = f"bench.{name}"
    with suppress(NoSuchTableError):
        catalog.drop_table(full)
    catalog.register_table(full, metadata)
    return full


def _head(data: DataSet, log: int) -> np.ndarray:
    rng = np.random.default_rng([SEED, log, 1])
    share, rows, keys = data.tail // data.logs, data.head // data.logs, max(1, data.head_keys // data.logs)
    if data.draw == "uniform":
        return rng.permutation(share)[:keys][_covering(rng, keys, rows)]
    if data.draw == "local":
        # the tail's first keys in order of offset: they fill a share of its files
        order, near = np.random.default_rng([SEED, log]).permutation(share), int(share * data.near)
        return order[:near][rng.permutation(near)[:keys]][_covering(rng, keys, rows)]
    if data.draw == "zipf":
        weights = np.cumsum(1 / np.arange(1, keys + 1) ** 0.99)
        return rng.permutation(share)[np.searchsorted(weights / weights[-1], rng.random(rows))]
    return share + _covering(rng, keys, rows)


def _covering(rng: np.random.Generator, keys: int, rows: int) -> np.ndarray:
    """So many draws of key numbers, each key at least once when there is room."""
    once = np.arange(min(keys, rows))
    return rng.permutation(np.concatenate([once, rng.integers(0, keys, rows - len(once))]))


def _rows(
    db: duckdb.DuckDBPyConnection,
    data: DataSet,
    start: int,
    keys: list[np.ndarray],
    tombstones: bool,
    schema: pa.Schema,
) -> Iterator[pa.Table]:
    """The next file of every log together, from the offset on; `keys` are the key numbers of each log."""
    value = "null::varchar" if tombstones else (
        "substr(md5(o || ':' || log) || md5(log || '/' || o) || md5(o || '-' || log) || md5(log || '_' || o), 1, 100)"
    )  # fmt: skip
    query = f"""
        select log::int as partition, o as "offset", make_timestamptz({T0 * 1000} + o * 1000) as timestamp,
               encode(md5(log || ':' || k)) as key, {value} as value
        from numbers
    """
    db.execute("set timezone='UTC'")
    for at in range(0, len(keys[0]), data.file_rows):
        parts = [k[at : at + data.file_rows].astype("int64") for k in keys]
        logs = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
        offsets = np.concatenate([np.arange(start + at, start + at + len(p)) for p in parts])
        db.register("numbers", pa.table({"log": logs, "o": offsets, "k": np.concatenate(parts)}))
        yield db.sql(query).to_arrow_table().select(schema.names).cast(schema)
