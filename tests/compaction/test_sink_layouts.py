"""Every verb on tables as sinks leave them: nested metadata, hours, no partition field, deletes told by a column."""

import json
from itertools import count
from pathlib import Path

import pytest
from hardpack import BadInput
from hardpack.errors import UncleanableLog
from hardpack.rules.reference.cleaner import Row
from hardpack.table.footers import FOLDER, footers_name

from tests.layouts import FLAT, HOURLY, NESTED, TOPICS, left, rows_of
from tests.topics import T0, name_of

pytestmark = pytest.mark.spark
ASKED = {
    FLAT.name: b"b".hex().encode(), HOURLY.name: b"b", TOPICS.name: b"b",
    NESTED.name: b'{"size": 1, "day": "2026-01-02", "text": "62"}',
}  # fmt: skip
"""How a person asks for the key `b`."""
HOUR, DAY = 3_600_000, 86_400_000
_names = count()


@pytest.mark.parametrize(("layout", "bounds"), [(FLAT, True), (HOURLY, False), (NESTED, True), (TOPICS, True)])
def test_a_day_of_a_sinks_table(hp, catalog, layout, bounds):
    table = layout.adopted(
        catalog, f"sinks.t{next(_names)}", delete_retention_ms=HOUR, min_cleanable_dirty_ratio=0,
        key_filter_min_rows=1, min_compaction_lag_ms=0,
    )  # fmt: skip
    name = name_of(table)
    hp.adopt(name)
    for hour, keys in enumerate((["a", "b", "c"], ["a", "d-", "e"], ["b-", "e", "f"])):
        at = T0 + hour * HOUR
        layout.append(
            table,
            {0: rows_of(*keys, start=3 * hour, at=at), 1: rows_of(*keys[:2], start=3 * hour, at=at)},
            bounds=bounds,
        )
    layout.append(
        table, {0: rows_of("z", start=9, at=T0 + 3 * HOUR), 1: rows_of("z", start=9, at=T0 + 3 * HOUR)}, bounds=bounds
    )
    now = T0 + DAY
    plan = hp.plan(name, now=now)
    expected = hp.clean(plan, dry_run=True)
    report = hp.clean(plan)
    assert sum(log.removed for log in report.logs) == sum(log.removed for log in expected.logs) == 5
    assert left(layout, table) == {
        (0, 2), (0, 3), (0, 4), (0, 6), (0, 7), (0, 8), (0, 9), (1, 3), (1, 4), (1, 6), (1, 7), (1, 9),
    }  # fmt: skip
    assert hp.verify(name, now=now).success
    why = hp.explain(name, key=ASKED[layout.name], now=now)
    found = [(layout.number(r.partition), r.offset, r.tombstone) for r in why.rows]
    assert found == [(0, 6, True), (1, 6, True)]
    # after the retention that counts from the first cleaning
    hp.expire_tombstones(name, now=now + 2 * HOUR)
    assert left(layout, table) == {(0, 2), (0, 3), (0, 7), (0, 8), (0, 9), (1, 3), (1, 7), (1, 9)}
    assert hp.verify(name, now=now).success
    # late rows, and a second pass that uses the key filters
    layout.append(table, {0: rows_of("c", "a", start=10, at=T0 + 4 * HOUR)}, bounds=bounds)
    layout.append(table, {0: rows_of("z", start=12, at=T0 + 5 * HOUR)}, bounds=bounds)
    hp.clean(hp.plan(name, now=now + 3 * HOUR))
    assert {o for p, o in left(layout, table) if p == 0} == {7, 8, 9, 10, 11, 12}
    assert hp.verify(name, now=now).success
    assert hp.maintain(name, now=now).table == name
    # of manifests that are no longer there nothing is kept
    manifests = {footers_name(m.manifest_path) for m in table.refresh().current_snapshot().manifests(table.io)}
    kept = {path.name for path in Path(table.location().removeprefix("file://"), FOLDER).glob("*")}
    assert kept <= manifests
    assert bool(kept) == (not bounds or bool(layout.topics))


def test_a_key_that_does_not_name_its_columns_is_one_sentence(hp, catalog):
    table = NESTED.adopted(catalog, f"sinks.t{next(_names)}")
    NESTED.append(table, {0: rows_of("a", start=0, at=T0)})
    for asked in (b"a", b"5", b'{"size": 1}', b'{"size": 1, "day": "2026-01-02", "text": "62", "more": 1}'):
        with pytest.raises(BadInput, match=r'expected JSON as in \{"size": "…", "day": "…", "text": "…"\}'):
            hp.explain(name_of(table), key=asked, now=T0)


@pytest.mark.parametrize("cell", ['"size": "1"', '"size": 1.0', '"size": 99999999999', '"day": "soon"', '"text": 5'])
def test_a_value_that_does_not_fit_its_column_is_one_sentence(hp, catalog, cell):
    table = NESTED.adopted(catalog, f"sinks.t{next(_names)}")
    NESTED.append(table, {0: rows_of("a", start=0, at=T0)})
    given = json.loads('{"size": 1, "day": "2026-01-02", "text": "61"}') | json.loads(f"{{{cell}}}")
    asked = json.dumps(given).encode()
    with pytest.raises(BadInput, match=r"the key asked for has no (int|date|string) for '_cdc\.key\.(size|day|text)'"):
        hp.explain(name_of(table), key=asked, now=T0)


def test_a_second_topic_is_told_apart_once_the_table_says_how(hp, catalog):
    """Its rows share offsets with the first one's: nothing is cleaned before logs are named with their topic."""
    alone = {"column.partition": "_kafka.partition"}
    table = TOPICS.adopted(catalog, f"sinks.t{next(_names)}", min_cleanable_dirty_ratio=0, **alone)
    name = name_of(table)
    hp.adopt(name)
    TOPICS.append(table, {0: rows_of("a", "b", "a", start=0, at=T0)})
    TOPICS.append(table, {0: rows_of("b", start=3, at=T0)})
    assert [log.removed for log in hp.clean(hp.plan(name, now=T0 + DAY)).logs] == [1]
    TOPICS.append(table, {1: rows_of("a", "b", "a", "c", start=0, at=T0)})
    TOPICS.append(table, {1: rows_of("a", start=4, at=T0)})
    before = left(TOPICS, table)
    with pytest.raises(UncleanableLog, match=r"--set column\.partition=TOPIC,PARTITION"):
        hp.clean(hp.plan(name, now=T0 + DAY))
    assert left(TOPICS, table) == before
    hp.adopt(name, {"column.partition": "_kafka.topic,_kafka.partition"})
    assert {s.partition: s.checkpoint for s in hp.status(name)} == {TOPICS.log(0): None, TOPICS.log(1): None}
    hp.clean(hp.plan(name, now=T0 + DAY))
    assert left(TOPICS, table) == {(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (1, 4)}
    assert hp.verify(name, now=T0 + DAY).success


def test_rows_that_were_clean_are_cleaned_by_another_key(hp, catalog):
    table = TOPICS.adopted(catalog, f"sinks.t{next(_names)}", min_cleanable_dirty_ratio=0)
    name = name_of(table)
    hp.adopt(name)
    TOPICS.append(table, {0: [Row(n, b"%d" % n, b"same", timestamp=T0) for n in range(3)]})
    TOPICS.append(table, {0: rows_of("z", start=3, at=T0)})
    hp.clean(hp.plan(name, now=T0 + DAY))
    hp.adopt(name, {"column.key": "value", "tombstone": "none"})
    assert hp.verify(name, now=T0 + DAY).success
    hp.clean(hp.plan(name, now=T0 + DAY))
    assert left(TOPICS, table) == {(0, 2), (0, 3)}
    assert hp.verify(name, now=T0 + DAY).success
