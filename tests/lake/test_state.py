"""The state survives the round trip; a foreign one is refused."""

import pytest
from hardpack.errors import BadInput
from hardpack.lake.state import STATE_PROPERTY, read_state, write_state
from hardpack.log.model import LogState
from hypothesis import given
from hypothesis import strategies as st

OFFSETS = st.integers(0, 2**62)
STATES = st.builds(
    LogState,
    checkpoint=st.none() | OFFSETS,
    log_start=OFFSETS,
    log_end=OFFSETS,
    horizons=st.lists(st.tuples(OFFSETS, OFFSETS), max_size=4).map(tuple),
    last_clean=st.dictionaries(st.sampled_from(["now", "from", "to"]), OFFSETS),
)


@given(st.dictionaries(st.text(min_size=1), STATES, max_size=4))
def test_round_trip(logs):
    assert read_state("db.t", {STATE_PROPERTY: write_state(logs)}) == logs


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version":2,"logs":{}}', '{"version":1,"logs":{"0":{}}}'])
def test_a_state_that_is_not_ours_is_refused(text):
    with pytest.raises(BadInput, match=r"db\.t: table property hardpack\.state cannot be read"):
        read_state("db.t", {STATE_PROPERTY: text})
