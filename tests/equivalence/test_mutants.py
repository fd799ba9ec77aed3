"""What `make mutants` plants in the rules still has its place there; whether tests see it, the long run tells."""

import pytest

from tests.equivalence.mutants import MUTANTS, Mutant, planted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_what_is_planted_has_a_place(mutant):
    assert mutant.old != mutant.new
    assert mutant.new in planted(mutant)


def test_what_has_none_is_told():
    with pytest.raises(ValueError, match="no longer says 'no such line'; mend the mutant 'stale'"):
        planted(Mutant("stale", "selection.py", "no such line", ""))
