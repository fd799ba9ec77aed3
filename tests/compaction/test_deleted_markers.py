"""Control rows that somebody deleted, that Kafka cut off or that name no producer: no outcome is guessed."""

import pyarrow as pa
import pytest
from pyiceberg.types import BooleanType, LongType, StringType

from tests.topics import T0, name_of, new_topic, offsets

pytestmark = pytest.mark.spark
MAPPED = {"column.producer.id": "producer", "column.transactional": "tx", "column.control": "control"}
COMMITTED = [(0, b"a", 7, True, None), (1, b"b", 7, True, None), (2, None, 7, True, "commit")]
ABORTED = [(3, b"c", 7, True, None), (5, None, 7, True, "abort")]
PLAIN = (4, b"d", 1, False, None)


@pytest.fixture
def topic(hp, catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    with table.update_schema() as update:
        update.add_column("producer", LongType()).add_column("tx", BooleanType()).add_column("control", StringType())
    hp.adopt(name_of(table), MAPPED)
    return table


def write(table, *logs, epoch=1):
    """One commit of rows of logs 0, 1 and on."""
    rows = [(log, *row) for log, found in enumerate(logs) for row in found]
    columns = ("partition", "offset", "key", "producer", "tx", "control")
    schema = table.refresh().schema().as_arrow()
    data = dict(zip(columns, zip(*rows, strict=True), strict=True))
    data |= {"timestamp": [T0 * 1000] * len(rows), "value": ["v"] * len(rows), "epoch": [epoch] * len(rows)}
    table.append(pa.table({n: pa.array(data[n], schema.field(n).type) for n in schema.names}, schema=schema))


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_of_a_transaction_whose_commit_was_deleted_stay(hp, catalog, spark, topic, mode):
    name = name_of(topic)
    with topic.transaction() as change:
        change.set_properties({"write.delete.mode": mode})
    write(topic, COMMITTED, COMMITTED)
    spark.sql(f"DELETE FROM {hp.jvm_table(name).name} WHERE `partition` = 0 AND control = 'commit'")
    write(topic, [*ABORTED, PLAIN], [*ABORTED, PLAIN])
    write(topic, [(6, b"z", 1, False, None)], [(6, b"z", 1, False, None)])
    report = hp.clean(hp.plan(name, T0))
    assert offsets(topic, 0) == [0, 1, 3, 4, 5, 6]
    assert offsets(topic, 1) == [0, 1, 2, 4, 5, 6], "the other log is cleaned"
    assert "offsets are missing between 0 and the abort at 5" in report.notes[0]
    states = {s.partition: s for s in hp.status_of(topic.refresh(), T0)}
    assert states[0].uncleanable
    assert "may have been a commit" in states[0].reason
    write(topic, [(2, None, 7, True, "commit")])
    hp.resume(name, [0])
    hp.clean(hp.plan(name, T0))
    assert offsets(topic, 0) == [0, 1, 2, 4, 5, 6], "with the marker back the log is cleaned"


def test_offsets_that_the_source_left_out_are_no_reason(hp, topic):
    """A source that was compacted before has gaps; nobody has deleted anything here."""
    write(topic, [(0, b"a", 7, True, None), (3, None, 7, True, "abort"), (4, b"d", 1, False, None)])
    write(topic, [(6, b"z", 1, False, None)])
    hp.clean(hp.plan(name_of(topic), T0))
    assert offsets(topic, 0) == [3, 4, 6]


def test_a_limit_where_the_marker_of_an_abort_was_deleted_its_rows_pass_for_the_next_transactions(hp, spark, topic):
    """docs/limits.md says so: nothing in the table tells of a marker that is gone, and the offsets have gaps anyway."""
    name = name_of(topic)
    write(topic, [(0, b"a", 7, True, None), (1, None, 7, True, "abort")])
    spark.sql(f"DELETE FROM {hp.jvm_table(name).name} WHERE control = 'abort'")
    write(topic, [(2, b"b", 7, True, None), (3, None, 7, True, "commit"), PLAIN])
    write(topic, [(6, b"z", 1, False, None)])
    hp.clean(hp.plan(name, T0))
    assert offsets(topic, 0) == [0, 2, 3, 4, 6]


def test_a_marker_that_kafka_cut_off_decides_nothing(hp, topic):
    """Unclean elections cut off rows; without its marker the transaction is open until its producer says more."""
    with topic.update_schema() as update:
        update.add_column("epoch", LongType())
    name = name_of(topic)
    hp.adopt(name, {"column.leader.epoch": "epoch"})
    write(topic, [(0, b"a", 7, True, None), (1, b"p", 1, False, None), (2, None, 7, True, "commit")])
    write(topic, [(2, b"c", 1, False, None), (3, b"p", 1, False, None), (4, b"q", 1, False, None)], epoch=2)
    report = hp.clean(hp.plan(name, T0, force=True))
    assert offsets(topic, 0) == [0, 1, 2, 2, 3, 4]
    assert "open transaction" in report.notes[0]
    (undecided,) = hp.explain(name, b"a", T0, [0]).rows
    assert "aborted" not in undecided.reason
    write(topic, [(5, None, 7, True, "abort"), (6, b"y", 1, False, None)], epoch=2)
    write(topic, [(7, b"z", 1, False, None)], epoch=2)
    (aborted,) = hp.explain(name, b"a", T0, [0]).rows
    assert "aborted" in aborted.reason
    hp.clean(hp.plan(name, T0))
    assert offsets(topic, 0) == [2, 3, 4, 5, 6, 7]


def test_rows_without_a_producer_are_of_one(hp, topic):
    """As where the column was added to a table that had transactions before."""
    write(topic, [(0, b"a", None, True, None), (1, None, None, True, "commit"), (2, b"a", None, True, None)])
    write(topic, [(3, None, None, True, "commit"), (4, b"b", 1, False, None)])
    write(topic, [(5, b"z", 1, False, None)])
    hp.clean(hp.plan(name_of(topic), T0))
    assert offsets(topic, 0) == [1, 2, 3, 4, 5]
