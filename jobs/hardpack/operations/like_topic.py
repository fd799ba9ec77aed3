"""A topic's settings as its broker has them, to be those of a table."""

from __future__ import annotations

from pathlib import Path

from hardpack.errors import BadInput
from hardpack.operations.broker import SECONDS, admin_client, asked

TAKEN = (
    "cleanup.policy", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms",
    "delete.retention.ms", "segment.bytes", "retention.ms", "retention.bytes",
)  # fmt: skip
"""Settings of a topic that mean the same of a table."""


def topic_settings(place: str, command_config: Path | None = None) -> dict[str, str]:
    """Returns what a topic or its broker sets, of the settings that a table has too; Kafka's defaults are left out.

    Args:
        place: `HOST:PORT/TOPIC`; several brokers have commas between.
        command_config: a file of librdkafka's properties, one NAME=VALUE a line, for a broker that asks for
            credentials.

    Raises:
        BadInput: the place is none, the topic is not there, or the file cannot be read.
        Unavailable: the broker does not answer.
    """
    brokers, slash, topic = place.rpartition("/")
    if not slash or not brokers or not topic:
        raise BadInput(f"{place!r} names no topic of a broker, expected HOST:PORT/TOPIC, as in kafka:9092/orders.")
    admin = admin_client(brokers, command_config)
    from confluent_kafka.admin import ConfigResource, ConfigSource

    with asked(place):
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        described = admin.describe_configs([wanted], request_timeout=SECONDS)[wanted].result(SECONDS + 1)
    taken = {name: described[name] for name in TAKEN if name in described}
    if (policy := taken.get("cleanup.policy")) and not policy.value:
        raise BadInput(
            f"{place}: the topic's cleanup.policy is empty, by which Kafka keeps every record, and a table has to have "
            "one; give its settings with --set instead of --like-topic."
        )
    return {name: entry.value for name, entry in taken.items() if entry.source != ConfigSource.DEFAULT_CONFIG.value}
