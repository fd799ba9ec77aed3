"""What makes a row a tombstone: the grammar, and what metadata tells of a file's rows by each of its rules."""

import pytest
from hardpack.rules.model import DataFile, tombstones_below
from hardpack.rules.tombstones import TombstoneRule, tombstone_rule
from hypothesis import given
from hypothesis import strategies as st


def test_the_grammar_of_tombstones():
    assert tombstone_rule("null") == TombstoneRule("null")
    assert tombstone_rule("none") == TombstoneRule("none")
    assert tombstone_rule("_cdc.op=D|d") == TombstoneRule("equals", "_cdc.op", ("D", "d"))
    assert tombstone_rule("_kafka_value empty") == TombstoneRule("empty", "_kafka_value")
    for text in ("", "op", "op=", "=D", "op=D|", " empty", "op IS NULL"):
        with pytest.raises(ValueError, match="COLUMN empty"):
            tombstone_rule(text)
    assert all(tombstone_rule(t).text == t for t in ("null", "none", "a.b=1|2", "c empty"))


@pytest.mark.parametrize(
    ("rule", "nulls", "low", "high", "count"),
    [
        ("null", 3, None, None, 3),
        ("null", None, None, None, None),
        ("none", None, None, None, 0),
        ("op=D", 0, "D", "D", 10),
        ("op=D", 4, "D", "D", 6),
        ("op=D", None, "D", "D", None),
        ("op=D", 0, "I", "I", 0),
        ("op=D", None, "I", "I", 0),
        ("op=D", 0, "D", "I", None),
        ("op=D", 0, "C", "I", None),
        ("op=D", 10, None, None, 0),
        ("op=D", 0, None, None, None),
        ("v empty", 0, b"", b"", 10),
        ("v empty", 0, b"", b"x", None),
        ("v empty", 0, b"a", b"x", 0),
    ],
)
def test_what_metadata_tells_of_tombstones(rule, nulls, low, high, count):
    assert tombstone_rule(rule).count(10, nulls, low, high) == count


@given(
    st.sampled_from(["null", "none", "c=a", "c=a|b", "c empty"]),
    st.lists(st.none() | st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_what_metadata_tells_is_what_the_rows_say(rule, cells, counted, bounded):
    """Told exactly or not at all."""
    values = [cell for cell in cells if cell is not None]
    found = tombstone_rule(rule).count(
        len(cells),
        len(cells) - len(values) if counted else None,
        min(values) if bounded and values else None,
        max(values) if bounded and values else None,
    )
    says = {
        "null": lambda cell: cell is None,
        "none": lambda _: False,
        "c=a": lambda cell: cell == "a",
        "c=a|b": lambda cell: cell in ("a", "b"),
        "c empty": lambda cell: cell == "",
    }[rule]
    assert found in (None, sum(map(says, cells)))


def data_file(low, high, tombstones):
    return DataFile(f"f{low}", 1, high - low + 1, low, high, 0, 0, tombstones, 0)


@pytest.mark.parametrize(
    ("counts", "waiting"),
    [((1, 2, 4), 3), ((1, None, 4), None), ((1, 2, None), 3), ((0, 0, 0), 0)],
)
def test_tombstones_below_an_offset_are_counted_by_whole_files(counts, waiting):
    files = [data_file(10 * at, 10 * at + 9, tombstones) for at, tombstones in enumerate(counts)]
    assert tombstones_below(files, 20) == waiting


@pytest.mark.parametrize(("within", "waiting"), [(0, 1), (1, None), (None, None)])
def test_of_a_file_across_an_offset_nobody_can_tell_where_its_tombstones_are(within, waiting):
    assert tombstones_below([data_file(0, 9, 1), data_file(10, 19, within)], 15) == waiting
