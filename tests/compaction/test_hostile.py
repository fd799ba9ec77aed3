"""Names, keys and values that somebody chose to break things: a pass is right all the same (invariants 1, 2, 4)."""

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, LongType, NestedField, StringType, TimestamptzType

pytestmark = pytest.mark.spark
NAMES = {
    "quotes": ("pa'rt`", "off`set", 'ti"me', "k'e\"y`", "va`l'ue"),
    "words": ("select", "a.b", "時間; --", "🔑 ", "${x} %s {0}"),
}
KINDS = {
    "partition": StringType(), "offset": LongType(), "timestamp": TimestamptzType(), "key": BinaryType(),
    "value": StringType(),
}  # fmt: skip
LOGS = ["0", "o'brien", "a/b=c", "..", "ключ", "x" * 200]
KEYS = [
    b"", b"\x00", b"\x00\x00", b"k\x00", b"'; drop table t; --", "ключ".encode(), "🔑".encode(), b"\xff\xfe\x80",
    b"null", b"K" * 1_000_000, b"K" * 999_999 + b"L", b" ", b"\n",
]  # fmt: skip
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of the first moment of year 1 and the last of year 9999."""


def hostile_topic(catalog, name, columns, logs):
    """Each key three times in every log, with strange values and times between; the last segment is active."""
    roles = dict(zip(KINDS, columns, strict=True))
    schema = Schema(*(NestedField(i, roles[r], kind) for i, (r, kind) in enumerate(KINDS.items(), 1)))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "log"))
    settings = {f"hardpack.column.{role}": column for role, column in roles.items()}
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    properties = {"hardpack.cleanup.policy": "compact", **settings}
    table = catalog.create_table(name, schema, partition_spec=spec, properties=properties)
    times = [FIRST, -1, 0, 1_600_000_000_000_000, LAST]
    appended = {}
    for turn in range(4):
        rows = []
        for log in logs:
            for at, key in enumerate(KEYS):
                offset = turn * len(KEYS) + at
                value = None if (turn, at) == (2, 3) else f"\x00'\"`{turn}\U0001f4a5" + "v" * (at * 50_000)
                rows.append((log, offset, times[(turn + at) % len(times)], key, value))
                appended[log, offset] = (key, value)
        partition, offset, time, key, value = zip(*rows, strict=True)
        stamps = pa.array(time, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        arrays = [pa.array(partition), pa.array(offset), stamps, pa.array(key, pa.binary()), pa.array(value)]
        table.append(pa.table(arrays, schema=schema.as_arrow()))
    return table, appended


@pytest.mark.parametrize("kind", NAMES)
def test_names_keys_and_values(hp, catalog, kind):
    hp.clock = lambda: LAST // 1000 + 10**13
    columns = NAMES[kind]
    logs = LOGS if kind == "quotes" else LOGS[:2]
    name = f"t.hostile_{kind}"
    table, appended = hostile_topic(catalog, name, columns, logs)
    now = LAST // 1000 + 10**9
    report = hp.clean(hp.plan(name, now=now, force=True))
    assert {str(entry.partition) for entry in report.logs} == set(logs)
    found = table.refresh().scan().to_arrow()
    left = zip(*(found.column(columns[i]).to_pylist() for i in (0, 1, 3, 4)), strict=True)
    rows = {(log, offset): (key, value) for log, offset, key, value in left}
    # the fourth turn is active, so of the first three the last of each key stays
    expected = {spot: row for spot, row in appended.items() if spot[1] >= 2 * len(KEYS)}
    assert rows == expected
    assert hp.verify(name, now=now).success
    assert hp.expire_tombstones(name, now=now + 10**12).snapshot is not None
    assert table.refresh().scan().to_arrow().num_rows == len(expected) - len(logs)
