"""What stands in two places stands in both; ARCHITECTURE's "Where do I change …?" names them."""

import json
from pathlib import Path

import hardpack_expectations
from hardpack.compaction.dead_rows import BY_SQL
from hardpack.operations.like_topic import TAKEN
from hardpack.rules.broker_settings import BROKER_NAMES, TIMES
from hardpack.rules.causes import CAUSES, NULL_KEY, RETENTION, SUPERSEDED
from hardpack.rules.settings import Settings
from hardpack_expectations.guarantees import LogExpectation
from hardpack_expectations.measure import NUMBERS

BY_KEY_SCAN, BY_WHOLE_FILES = {SUPERSEDED, NULL_KEY}, {RETENTION}
PROMISED = {"removed", "markers"}
"""Numbers of a log's own, which a gate promises and nobody measures."""


def test_each_cause_has_what_finds_its_rows():
    assert {*BY_SQL} | BY_KEY_SCAN | BY_WHOLE_FILES == {*CAUSES}
    assert len(BY_SQL) + len(BY_KEY_SCAN) + len(BY_WHOLE_FILES) == len(CAUSES)


def test_names_of_kafka_lead_to_settings():
    settings = {field.alias for field in Settings.model_fields.values()}
    assert {*TAKEN} | {*BROKER_NAMES.values()} | {*TIMES} <= settings


def test_each_expectation_is_in_the_suite_and_shows_what_is_measured():
    suite = json.loads(Path(hardpack_expectations.__path__[0], "log_guarantees.json").read_text("utf-8"))
    ours = LogExpectation.__subclasses__()
    assert sorted(one["type"] for one in suite["expectations"]) == sorted(one.expectation_type for one in ours)
    assert {name for one in ours for name in one.shown} <= {*NUMBERS} | PROMISED
