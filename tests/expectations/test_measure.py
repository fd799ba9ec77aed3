"""What a task counts in its share of the evidence; DuckDB alone, no JVM."""

import pyarrow as pa
import pytest
from hardpack_expectations import measure as subject
from hardpack_expectations.measure import counting

EVIDENCE = pa.schema(
    [("p", pa.string()), ("k", pa.binary()), ("o", pa.int64()), ("tombstone", pa.bool_()), ("stands", pa.string()),
     ("content", pa.int64()), ("kind", pa.string())]
)  # fmt: skip
GREATEST = 2**63 - 1
LOG = {"bound": 100, "log_end": 200, "expired": []}


def row(log, key, offset, before, after, content=None, *, tombstone=False, kind="data"):
    stands = "both" if before and after else "before" if before else "after"
    return dict(zip(EVIDENCE.names, (log, key, offset, tombstone, stands, content, kind), strict=True))


def counted(rows, logs, size=3):
    batches = pa.Table.from_pylist(rows, EVIDENCE).to_batches(size)
    found = pa.Table.from_batches(counting(logs)(iter(batches))).to_pylist()
    return {one.pop("p"): {name: n for name, n in one.items() if n} for one in found}


def test_a_task_without_rows_counts_nothing():
    assert list(counting([LOG | {"partition": "0"}])(iter([]))) == []


def test_the_same_key_and_offset_in_two_logs_are_apart():
    """Each log is held against its own bounds (invariant 1)."""
    rows = [row(log, b"a", offset, 1, 1) for log in ("0", "1") for offset in (1, 2)]
    logs = [LOG | {"partition": "0"}, LOG | {"partition": "1", "bound": 2}]
    both = {"rows_before": 2, "rows_after": 2}
    assert counted(rows, logs) == {"0": both | {"duplicate_keys": 1}, "1": both}


def test_rows_without_a_key_have_no_latest():
    rows = [row("0", None, 1, 1, 1), row("0", None, 2, 1, 1), row("0", None, 3, 1, 0)]
    assert counted(rows, [LOG | {"partition": "0"}]) == {"0": {"rows_before": 3, "rows_after": 2}}


def test_an_offset_that_stands_twice_is_no_second_row_of_its_key():
    rows = [row("0", b"a", 1, 1, 0, 7), row("0", b"a", 1, 0, 1, 7), row("0", b"a", 1, 1, 0, 7)]
    assert counted(rows, [LOG | {"partition": "0"}]) == {"0": {"rows_before": 2, "rows_after": 1}}


@pytest.mark.parametrize(("expired", "found"), [([[0, 4], [6, 9]], {}), ([[0, 4]], {"wrong_latest": 1})])
def test_only_a_tombstone_in_a_due_range_may_go(expired, found):
    """Invariant 5."""
    rows = [row("0", b"a", 7, 1, 0, 1, tombstone=True), row("0", b"b", 7, 1, 1)]
    assert counted(rows, [LOG | {"partition": "0", "expired": expired}]) == {
        "0": {"rows_before": 2, "rows_after": 1} | found
    }


def test_a_row_is_from_nowhere_only_where_all_rows_were_read():
    """A new file holds rows of files that a sample passes over; a second row of a key is one all the same."""
    rows = [row("0", b"a", 3, 0, 1), row("0", b"a", 12, 1, 1), row("0", b"b", 11, 0, 1), row("0", b"c", 4, 0, 1)]
    log = LOG | {"partition": "0", "passed": [[2, 3], [30, 40]]}
    found = {"rows_before": 1, "rows_after": 4, "invented": 2, "duplicate_keys": 1}
    assert counted(rows, [log]) == {"0": found}
    assert counted(rows, [log | {"passed": [[0, 20]]}]) == {"0": {n: v for n, v in found.items() if n != "invented"}}
    assert counted(rows, [LOG | {"partition": "0"}]) == {"0": found | {"invented": 3}}


def test_the_greatest_offsets_there_are():
    rows = [row("0", b"a", GREATEST - 2, 1, 1), row("0", b"a", GREATEST - 1, 1, 1)]
    log = {"partition": "0", "bound": GREATEST, "log_end": GREATEST, "expired": []}
    assert counted(rows, [log]) == {"0": {"rows_before": 2, "rows_after": 2, "duplicate_keys": 1}}


def test_more_rows_than_the_memory_holds(monkeypatch):
    monkeypatch.setattr(subject, "MEMORY", "64MB")
    rows = 1_000_000
    table = pa.table(
        [
            pa.repeat(pa.scalar("0"), rows), pa.array([b"%032d" % n for n in range(rows)]), pa.array(range(rows)),
            pa.repeat(pa.scalar(False), rows), pa.repeat(pa.scalar("both"), rows), pa.nulls(rows, pa.int64()),
            pa.repeat(pa.scalar("data"), rows),
        ],
        schema=EVIDENCE,
    )  # fmt: skip
    log = {"partition": "0", "bound": rows, "log_end": rows, "expired": []}
    found = pa.Table.from_batches(counting([log])(iter(table.to_batches(10_000)))).to_pylist()
    assert (found[0]["rows_before"], found[0]["duplicate_keys"], found[0]["wrong_latest"]) == (rows, 0, 0)
