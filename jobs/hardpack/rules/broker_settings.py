"""A broker's defaults by the broker's names, as settings of a topic (Kafka's ServerTopicConfigSynonyms)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from hardpack.rules.times import HOUR_MS, LONG_MAX

BROKER_NAMES = {
    "log.cleanup.policy": "cleanup.policy",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.segment.bytes": "segment.bytes",
    "log.retention.bytes": "retention.bytes",
}
TIMES = {
    "retention.ms": {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": HOUR_MS},
    "segment.ms": {"log.roll.ms": 1, "log.roll.hours": HOUR_MS},
}
"""By topic setting, the broker's names for a time, with the ms in one unit of each; the first name given counts."""
ELSEWHERE = {
    "log.cleaner.backoff.ms": "the policy's schedule says how often it looks",
    "log.cleaner.enable": "a policy that has a schedule cleans",
    "log.retention.check.interval.ms": "the policy's schedule says how often it looks",
    "log.cleaner.io.buffer.size": "Spark has buffers of its own",
}
"""Settings of the broker that a policy cannot set, each with what takes its place."""


def named_by_broker(glob: str) -> list[str]:
    """Returns the settings of a topic whose defaults a broker has under names that a glob matches."""
    names = [(name, own) for name, own in BROKER_NAMES.items()]
    names += [(name, own) for own, units in TIMES.items() for name in units]
    return list(dict.fromkeys(own for name, own in names if fnmatchcase(name, glob)))


def as_topic_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Returns settings under the topic's names. Where both names of a setting are given, the topic's wins, as in Kafka.

    Args:
        given: values by names of a topic's or a broker's settings.

    Raises:
        ValueError: a time is no number, or a broker's setting has no meaning here.
    """
    for name in given:
        if name in ELSEWHERE:
            raise ValueError(f"{name} is no setting of a log: {ELSEWHERE[name]}")
    defaults = {own: given[name] for name, own in BROKER_NAMES.items() if name in given}
    broker_names = set(BROKER_NAMES)
    for own, units in TIMES.items():
        broker_names.update(units)
        if named := next((name for name in units if name in given), None):
            defaults[own] = _millis(named, given[named], units[named])
    return {**defaults, **{name: value for name, value in given.items() if name not in broker_names}}


def _millis(name: str, value: str, unit: int) -> str:
    try:
        number = int(value)
    except ValueError:
        raise ValueError(f"{name} is {value!r}, expected a whole number, or -1 for ever") from None
    # a time below 0 means for ever, whatever its unit (KafkaConfig.logRetentionTimeMillis)
    return str(-1 if number < 0 else min(number * unit, LONG_MAX))
