"""Small tables with every column that a reader looks at, and their rows back; no JVM."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, LongType, NestedField, StringType

from tests.reading.records import open_reader
from tests.topics import T0

NAMES = count()


def schema(**kinds):
    kinds = {"partition": IntegerType(), "offset": LongType(), "timestamp": LongType(), "key": StringType(),
             "value": StringType(), "epoch": IntegerType(), "pid": LongType(), "tx": BooleanType(),
             "ctl": StringType()} | kinds  # fmt: skip
    return Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate(kinds.items(), 1)))


def table_of(catalog, found, spec=None, **settings):
    catalog.create_namespace_if_not_exists("edges")
    told = {f"hardpack.{name.replace('_', '.')}": value for name, value in settings.items()}
    return catalog.create_table(
        f"edges.t{next(NAMES)}", found, partition_spec=spec or PartitionSpec(),
        properties={"hardpack.cleanup.policy": "compact", **told},
    )  # fmt: skip


def arrow(found, *rows):
    usual = {"partition": 0, "timestamp": T0, "key": "a", "value": "v", "epoch": 1, "tx": False}
    names = [field.name for field in found.fields]
    cells = [{k: v for k, v in (usual | row).items() if k in names} for row in rows]
    return pa.Table.from_pylist(cells, schema=schema_to_pyarrow(found))


def filled(catalog, *commits, spec=None, kinds=None, **settings):
    found = schema(**(kinds or {}))
    table = table_of(catalog, found, spec, **{name.replace(".", "_"): value for name, value in settings.items()})
    for rows in commits:
        table.append(arrow(found, *rows))
    return table.refresh()


def read(table, *what, of=("offset", "value"), **options):
    return [
        tuple(r[n] for n in of) for batch in open_reader(table, None).read(*what, **options) for r in batch.to_pylist()
    ]
