"""Rewrite or deletion vector: worked examples of the rule."""

import pytest
from hardpack.rules.deletion_vectors import stays_under_vector
from hardpack.rules.settings import Settings

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("dead", "gone", "size", "stays"),
    [(20, False, 36 * MB, True), (21, False, 36 * MB, False), (1, True, 36 * MB, False), (1, False, 3 * MB, False)],
)
def test_a_large_file_with_few_superseded_rows_stays(dead, gone, size, stays):
    assert stays_under_vector(100, size, dead, gone, Settings()) is stays


def test_a_file_without_a_living_row_goes_whatever_the_settings():
    settings = Settings.model_validate({"deletion.vector.max.ratio": 1, "deletion.vector.min.bytes": 0})
    assert stays_under_vector(100, 1, 99, False, settings)
    assert not stays_under_vector(100, 1, 100, False, settings)


def test_a_ratio_of_nothing_rewrites_always():
    assert not stays_under_vector(100, 36 * MB, 1, False, Settings.model_validate({"deletion.vector.max.ratio": 0}))


def test_with_replace_there_are_no_vectors():
    assert not stays_under_vector(100, 36 * MB, 1, False, Settings.model_validate({"commit.operation": "replace"}))
