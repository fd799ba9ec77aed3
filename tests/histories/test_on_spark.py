"""A sample of histories on real tables through real Spark; the oracle reads their rows by pyiceberg."""

import os
from itertools import count

import pytest

from tests.histories.spark_world import play_on_spark, short
from tests.histories.steps import to_script

pytestmark = [pytest.mark.spark, pytest.mark.histories]
_names = count()

FIRST, NUMBER = int(os.environ.get("SEED", "1")), int(os.environ.get("SPARK_HISTORIES", "10"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + NUMBER))
def test_a_history_on_a_real_table(seed, catalog, spark, home, no_pages):
    steps = short(seed, f"t.history{next(_names)}")
    print(to_script(steps))
    play_on_spark(steps, catalog, spark, home)
