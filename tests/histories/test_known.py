"""Random histories, and those that once broke a promise; no JVM, a minute."""

import os

import pytest

from tests.histories.__main__ import run_seeds, smaller
from tests.histories.engine import simulated
from tests.histories.known import KNOWN, REPLACED_THEN_SPLIT
from tests.histories.steps import to_script
from tests.histories.world import World, play

pytestmark = pytest.mark.histories
FIRST, NUMBER = int(os.environ.get("SEED", "1")), int(os.environ.get("HISTORIES", "1000"))
PIECE = 100
"""Histories of one test, so that two processes share them."""


@pytest.mark.parametrize("holds", KNOWN)
def test_what_was_found_stays_found(holds):
    play(KNOWN[holds][1])


def test_a_replaced_log_is_not_refused_once_its_rows_are_taken_out_of_a_file_that_others_rewrote():
    with simulated():
        world = World()
        for step in REPLACED_THEN_SPLIT:
            world.do(step)
        said = world.hp.said("t.a")[0]
    assert (said.refused, said.expired_to) == (False, -1), said.reason


@pytest.mark.parametrize("first", range(FIRST, FIRST + NUMBER, PIECE))
def test_no_history_breaks_a_promise(first):
    seeds = range(first, min(first + PIECE, FIRST + NUMBER))
    broken = [(seed, rule, sentence) for seed, _, rule, sentence, _ in run_seeds(seeds) if rule]
    if broken:
        seed, rule, sentence = broken[0]
        pytest.fail(
            f"{len(broken)} of {len(seeds)}, as seed {seed}: {sentence}\n{to_script(smaller(seed, rule), rule)}"
        )
