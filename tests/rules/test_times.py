"""Arithmetic on times ends where Kafka's longs end."""

import pytest
from hardpack.rules.times import LONG_MAX, LONG_MIN, minus, plus


@pytest.mark.parametrize(
    ("ms", "span", "later", "earlier"),
    [
        (5, 3, 8, 2),
        (LONG_MAX, 1, LONG_MAX, LONG_MAX - 1),
        (5, LONG_MAX, LONG_MAX, 5 - LONG_MAX),
        (-5, LONG_MAX, LONG_MAX - 5, LONG_MIN),
        (LONG_MIN, 1, LONG_MIN + 1, LONG_MIN),
    ],
)
def test_never_stays_never(ms, span, later, earlier):
    assert (plus(ms, span), minus(ms, span)) == (later, earlier)
