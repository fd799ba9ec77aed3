"""A topic's settings as its broker has them, to be those of a table."""

from __future__ import annotations

from pathlib import Path

from hardpack.errors import BadInput, Unavailable

TAKEN = (
    "cleanup.policy", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms",
    "delete.retention.ms", "segment.bytes", "retention.ms", "retention.bytes",
)  # fmt: skip
"""Settings of a topic that mean the same of a table."""
SECONDS = 15


def topic_settings(place: str, command_config: Path | None = None) -> dict[str, str]:
    """Returns what a topic or its broker sets, of the settings that a table has too; Kafka's defaults are left out.

    Args:
        place: `HOST:PORT/TOPIC`; several brokers have commas between.
        command_config: a file of a Kafka client's properties, as Kafka's own tools take it, for a broker that asks for
            credentials.

    Raises:
        BadInput: the place is none, the topic is not there, or the file cannot be read.
        Unavailable: the broker does not answer.
    """
    brokers, slash, topic = place.rpartition("/")
    if not slash or not brokers or not topic:
        raise BadInput(f"{place!r} names no topic of a broker, expected HOST:PORT/TOPIC, as in kafka:9092/orders.")
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource
    except ImportError:
        raise BadInput(
            "a broker is asked by confluent-kafka, which is not there; pip install 'hardpack[kafka]'."
        ) from None
    client = {"bootstrap.servers": brokers, "log_level": 0, "socket.timeout.ms": SECONDS * 1000}
    try:
        admin = AdminClient(client | _properties(command_config))
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = admin.describe_configs([asked], request_timeout=SECONDS)[asked].result(SECONDS + 1)
    except KafkaException as error:
        code = error.args[0]
        if code.code() == code.UNKNOWN_TOPIC_OR_PART:
            raise BadInput(f"{place}: the broker has no such topic; mend its name.") from None
        if code.code() in (code._INVALID_ARG, code.TOPIC_EXCEPTION, code.TOPIC_AUTHORIZATION_FAILED):
            raise BadInput(f"{place}: the broker is not asked or does not tell ({code.str()}).") from None
        raise Unavailable(f"{place}: the broker does not answer ({code.str()}); try again.") from None
    except TimeoutError:
        raise Unavailable(f"{place}: the broker does not answer within {SECONDS} s; try again.") from None
    told = {name: found[name] for name in TAKEN if name in found}
    return {name: entry.value for name, entry in told.items() if entry.source != ConfigSource.DEFAULT_CONFIG.value}


def _properties(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise BadInput(
            f"{path} cannot be read as a file of a Kafka client's properties; mend --command-config."
        ) from None
    pairs = [line.partition("=") for line in lines if line and not line.startswith(("#", "!"))]
    return {name.strip(): value.strip() for name, _, value in pairs}
