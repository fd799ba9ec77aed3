"""Reads the settings of a Kafka topic from its broker, so that a table can take them over."""

from __future__ import annotations

from pathlib import Path

from hardpack.errors import BadInput
from hardpack.operations.broker import SECONDS, admin_client, asked

TAKEN = (
    "cleanup.policy", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms",
    "delete.retention.ms", "segment.bytes", "retention.ms", "retention.bytes",
)  # fmt: skip
"""Settings of a Kafka topic that mean the same for a table."""


def topic_settings(place: str, command_config: Path | None = None) -> dict[str, str]:
    """Returns the settings of `TAKEN` that a Kafka topic or its broker sets; Kafka's defaults are left out.

    Args:
        place: `HOST:PORT/TOPIC`; several brokers have commas between.
        command_config: a file of librdkafka's properties, one NAME=VALUE a line, for a broker that asks for
            credentials.

    Raises:
        BadInput: the place is not HOST:PORT/TOPIC, the topic does not exist or its cleanup.policy is empty, or the file
            cannot be read.
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
