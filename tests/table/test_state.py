"""The state survives the round trip; a foreign one is refused."""

import base64
import json
import random
import zlib
from dataclasses import replace

import pytest
from hardpack.errors import BadInput
from hardpack.rules.model import LastClean, LogState, Replaced, SeenCommits, SnapshotRef, Unseen
from hardpack.table.packing import ZLIB
from hardpack.table.state import STATE_PROPERTY, read_state, write_state
from hypothesis import example, given
from hypothesis import strategies as st

OFFSETS = st.integers(0, 2**62)
SEEN = st.builds(SeenCommits, OFFSETS, OFFSETS, st.lists(OFFSETS, max_size=3).map(tuple))
STATES = st.builds(
    LogState,
    checkpoint=st.none() | OFFSETS,
    log_start=OFFSETS,
    log_end=OFFSETS,
    horizons=st.lists(st.tuples(OFFSETS, OFFSETS), max_size=4).map(tuple),
    unseen=st.none() | st.builds(Unseen, st.none() | OFFSETS, st.none() | OFFSETS, OFFSETS, st.none() | OFFSETS),
    empty=st.booleans(),
    expired_to=st.integers(-1, 2**62),
    layout=st.lists(OFFSETS, max_size=4).map(sorted).map(tuple),
    last_clean=st.none() | st.builds(LastClean, OFFSETS, st.none() | OFFSETS),
    markers=st.lists(st.tuples(OFFSETS, st.lists(OFFSETS, max_size=3).map(sorted).map(tuple)), max_size=2).map(tuple),
    there_by=st.none() | st.tuples(OFFSETS, OFFSETS),
    trusted_to=OFFSETS,
    snapshot=st.none() | st.builds(SnapshotRef, OFFSETS, OFFSETS),
    seen=st.none() | SEEN,
    replaced=st.lists(st.builds(Replaced, OFFSETS, OFFSETS, SEEN), max_size=2).map(tuple),
)


@given(st.dictionaries(st.text(min_size=1), STATES, max_size=40))
@example({"columns": LogState()})
@example({"logs": LogState(), "version": LogState(), "times": LogState()})
def test_round_trip(logs):
    assert read_state("db.t", {STATE_PROPERTY: write_state(logs)}) == logs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version":7,"logs":{}}',
        '{"version":6,"logs":{"0":{"replaced":[[1,2,3]]}}}',
        '{"version":4,"logs":{"0":{"seen":[1]}}}',
        '{"version":3,"columns":{"end":[1,2]},"times":[],"logs":["0"]}',
        '{"version":3,"columns":{"end":["1"]},"times":[],"logs":["0"]}',
        '{"version":3,"columns":{"horizon_ends":[[1]]},"times":[],"logs":["0"]}',
        '{"columns":{},"times":[],"logs":[]}',
        "z1:abc",
        "[" * 100_000,
        '{"version":1,"logs":{"0":{}}}',
    ],
)
def test_a_state_that_is_not_ours_is_refused(text):
    with pytest.raises(BadInput, match=r"db\.t: table property hardpack\.state cannot be read"):
        read_state("db.t", {STATE_PROPERTY: text})


def test_an_older_state_is_read():
    """What a pass of version 1 wrote; its start of the log was that of the first row as often as retention's."""
    old = {
        "version": 1,
        "logs": {
            "0": {
                "checkpoint": 20, "start": 4, "end": 30, "horizons": [[9, 100], [19, 200]],
                "last_clean": {"now": 100, "from": 4, "to": 20, "horizon_up_to": 19}, "layout": [4, 6, 10],
                "expired_to": 3, "paused": 1, "snapshot": [77, 5], "seen": [4, 5],
            }
        },
    }  # fmt: skip
    read = read_state("db.t", {STATE_PROPERTY: json.dumps(old)})
    assert read["0"] == LogState(
        checkpoint=20, log_end=30, horizons=((9, 100), (19, 200)), layout=(4, 10, 20), expired_to=3, paused=1,
        snapshot=SnapshotRef(77, 5), seen=SeenCommits(4, 5), last_clean=LastClean(100, horizons=(19,)),
    )  # fmt: skip
    assert read_state("db.t", {STATE_PROPERTY: write_state(read)}) == read


def test_what_a_pass_recorded_names_no_snapshot():
    """As states of version 2 had it before anything was recorded between two passes."""
    old = {"version": 2, "logs": {"0": {"checkpoint": 20, "end": 20, "snapshot": [77, 5], "unseen": [8, None, 5]}}}
    assert read_state("db.t", {STATE_PROPERTY: json.dumps(old)})["0"].unseen == Unseen(8, None, 5)


def test_a_state_that_says_nothing_new_is_one_that_older_versions_read():
    plain, further = SeenCommits(4, 5), SeenCommits(4, 5, (6,))
    for state, version in (
        (LogState(seen=plain), 3),
        (LogState(seen=further), 4),
        (LogState(seen=plain, trusted_to=4), 5),
        (LogState(replaced=(Replaced(4, 5, plain),)), 6),
    ):
        assert json.loads(write_state({"0": state}))["version"] == version


def test_a_state_of_many_logs_is_read_from_version_two():
    """Where each field's values stood as they are, packed in one way only."""
    old = {
        "version": 2,
        "columns": {"checkpoint": [n * 10 for n in range(400)], "end": [n * 10 + 3 for n in range(400)],
                    "horizons": [[[n, 100], [9, 200]] if n % 2 else None for n in range(400)]},
        "logs": [str(n) for n in range(400)],
    }  # fmt: skip
    text = json.dumps(old, separators=(",", ":"))
    for kept in (text, ZLIB + base64.b85encode(zlib.compress(text.encode(), 9)).decode()):
        read = read_state("db.t", {STATE_PROPERTY: kept})
        assert read["7"] == LogState(checkpoint=70, log_end=73, horizons=((7, 100), (16, 200)))
        assert read["8"] == LogState(checkpoint=80, log_end=83)
        assert len(read) == 400


def test_a_day_of_horizons_in_ten_thousand_logs_takes_eighty_bytes_a_log():
    """Each pass of all logs an hour gives each of them one."""
    rng, now = random.Random(5), 1_700_000_000_000

    def state():
        ends = [rng.randrange(10**9)]
        for _ in range(24):
            ends.append(ends[-1] + rng.randrange(1, 10**5))
        horizons = tuple((end - 1, now + hour * 3_600_000) for hour, end in enumerate(ends[1:]))
        return LogState(
            checkpoint=ends[-1], log_end=ends[-1] + 1000, horizons=horizons,
            snapshot=SnapshotRef(8_123_456_789_012_345_678, 400),
            seen=SeenCommits(399, 400), last_clean=LastClean(now),
        )  # fmt: skip

    states = {str(n): state() for n in range(10_000)}
    text = write_state(states)
    assert len(text) < 80 * 10_000
    assert read_state("db.t", {STATE_PROPERTY: text}) == states


def test_ten_thousand_logs_of_a_hundred_segments_take_less_than_a_megabyte():
    rng = random.Random(5)

    def state():
        ends = [rng.randrange(10**9)]
        for _ in range(100):
            ends.append(ends[-1] + rng.randrange(1, 10**5))
        last, now = ends[-1], 1_700_000_000_000
        return LogState(
            checkpoint=last, log_end=last + rng.randrange(10**5), horizons=((last - 1, now + 86_400_000),),
            layout=tuple(ends), snapshot=SnapshotRef(8_123_456_789_012_345_678, 400),
            seen=SeenCommits(399, 400), last_clean=LastClean(now),
        )  # fmt: skip

    states = {str(n): state() for n in range(10_000)}
    text = write_state(states)
    assert len(text) < 600_000
    left = read_state("db.t", {STATE_PROPERTY: text})
    assert left == {name: replace(state, layout=()) for name, state in states.items()}, "layouts alone are left out"


def test_what_cannot_be_read_again_is_not_written():
    with pytest.raises(BadInput, match="cannot be read"):
        write_state({"0": LogState(checkpoint=2**63)})
