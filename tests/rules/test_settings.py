"""Settings: Kafka's names, defaults and rules; errors are one sentence with the mend."""

from typing import get_args

import pytest
from hardpack.errors import BadInput
from hardpack.rules.settings import LONG_MAX, Settings, dotted, read_settings


def test_defaults_are_kafkas():
    settings = read_settings("db.t", {})
    assert settings.cleanup_policy == "compact"
    assert settings.min_cleanable_dirty_ratio == 0.5
    assert settings.min_compaction_lag_ms == 0
    assert settings.max_compaction_lag_ms == LONG_MAX
    assert settings.delete_retention_ms == 86_400_000


def test_segment_bytes_follow_the_tables_target_file_size():
    assert read_settings("db.t", {"write.target-file-size-bytes": "8388608"}).segment_bytes == 8_388_608
    wrong = r"property write\.target-file-size-bytes is '512MB'.* or set segment.bytes, which wins over it"
    with pytest.raises(BadInput, match=wrong):
        read_settings("db.t", {"write.target-file-size-bytes": "512MB"})
    both = {"write.target-file-size-bytes": "8388608", "hardpack.segment.bytes": "2097152"}
    assert read_settings("db.t", both).segment_bytes == 2_097_152


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"hardpack.min.cleanable.dirty.ratio": "7"}, ["hardpack.min.cleanable.dirty.ratio", "'7'", "--set"]),
        ({"hardpack.min.cleanable.dirty.ratio": "half"}, ["hardpack.min.cleanable.dirty.ratio", "number"]),
        ({"hardpack.delete.retention.ms": "-1"}, ["hardpack.delete.retention.ms", "greater than or equal to 0"]),
        ({"hardpack.cleanup.policy": "purge"}, ["hardpack.cleanup.policy", "compact"]),
        ({"hardpack.null.keys": "keep"}, ["hardpack.null.keys", "refuse or drop"]),
        ({"hardpack.min.cleanable.ratio": "0.5"}, ["hardpack.min.cleanable.ratio", "not a setting"]),
        (
            {"hardpack.min.compaction.lag.ms": "10", "hardpack.max.compaction.lag.ms": "5"},
            ["min.compaction.lag.ms (10)", "max.compaction.lag.ms (5)"],
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_mend(properties, words):
    with pytest.raises(BadInput) as caught:
        read_settings("db.t", properties)
    message = str(caught.value)
    assert message.startswith("db.t: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_the_state_is_no_setting():
    assert read_settings("db.t", {"hardpack.state": "{}"})


def test_the_capacity_of_the_offset_map():
    """Kafka's default buffer holds 5,033,164 keys (SkimpyOffsetMap)."""
    assert read_settings("t", {}).max_keys is None
    assert read_settings("t", {"hardpack.log.cleaner.dedupe.buffer.size": "134217728"}).max_keys == 5_033_164


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"log.cleaner.dedupe.buffer.size": "24"}, "holds no key"),
        ({"column.control": "c"}, "mapped all or none"),
    ],
)
def test_settings_that_need_each_other(properties, words):
    with pytest.raises(BadInput, match=words):
        read_settings("t", {f"hardpack.{k}": v for k, v in properties.items()})


def takes_whole_numbers(kind):
    return kind is int or any(map(takes_whole_numbers, get_args(kind)))


NUMBERS = [name for name, field in Settings.model_fields.items() if takes_whole_numbers(field.annotation)]


@pytest.mark.parametrize("name", map(dotted, NUMBERS))
def test_no_number_is_above_kafkas_greatest(name):
    """What is above it could not be written into the state, and Kafka has no word for it."""
    assert read_settings("db.t", {f"hardpack.{name}": str(LONG_MAX)})
    with pytest.raises(BadInput, match=rf"hardpack\.{name}.*less than or equal to {LONG_MAX}"):
        read_settings("db.t", {f"hardpack.{name}": str(LONG_MAX + 1)})


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400"])
def test_a_rate_without_end_is_refused(text):
    """JSON, in which plans are kept, has no number for it."""
    most = "log.cleaner.io.max.bytes.per.second"
    with pytest.raises(BadInput, match=rf"hardpack\.{most} is '{text}', expected: "):
        read_settings("db.t", {f"hardpack.{most}": text})
    assert read_settings("db.t", {f"hardpack.{most}": "1e308"}).log_cleaner_io_max_bytes_per_second == 1e308
