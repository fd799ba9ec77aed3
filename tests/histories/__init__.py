"""The simulator of histories: everything that happens to a table in a year, judged by an oracle of its own."""

from tests.histories.steps import Step
from tests.histories.world import replay

__all__ = ["Step", "replay"]
