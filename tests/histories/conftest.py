"""The lake in memory that tests of single histories work on."""

import pytest

from tests.histories.engine import simulated
from tests.histories.world import World


@pytest.fixture
def world():
    """A world of tables in memory, while hardpack works on these."""
    with simulated():
        yield World()
