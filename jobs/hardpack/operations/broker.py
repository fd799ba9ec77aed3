"""Asks a Kafka broker with a client's properties, and turns each of its failures into a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from hardpack.errors import BadInput, Unavailable
from hardpack.home import trusted

T = TypeVar("T")
LOADS = ("plugin.", "ssl.engine.", "ssl.providers")
"""Beginnings of the names of client properties that make the client load libraries."""
PROPERTY = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*=\s*(?P<value>.*)")
SECONDS = 15
"""How long a broker may take to answer."""


def admin_client(brokers: str, command_config: Path | None = None) -> Any:
    """Returns a client that asks brokers about topics and groups.

    Args:
        brokers: `HOST:PORT`; several have commas between.
        command_config: a file of librdkafka's properties, one NAME=VALUE a line, for brokers that ask for credentials.

    Raises:
        BadInput: the file cannot be read, or the client is not installed.
    """
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise BadInput(
            "a broker is asked by confluent-kafka, which is not there; pip install 'hardpack[kafka]'."
        ) from None
    with asked(brokers):
        return AdminClient(_client(brokers, command_config))


def committed_offsets(
    brokers: str, group: str, topic: str, partitions: Iterable[int], command_config: Path | None = None
) -> dict[int, int]:
    """Returns the offsets that a consumer group has committed, by partition; a partition without one is left out.

    The group is not joined: its consumers notice nothing.

    Args:
        brokers: `HOST:PORT`; several have commas between.
        group: the group's name.
        topic: the topic's name.
        partitions: the topic's partitions that are asked about.
        command_config: a file of librdkafka's properties, one NAME=VALUE a line, for brokers that ask for credentials.

    Raises:
        BadInput: the file cannot be read.
        KafkaException: the broker refuses or does not answer.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    # offsets of a transaction that may yet be aborted are waited for
    ours = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    wanted = [TopicPartition(topic, number) for number in partitions]
    # a consumer asks, as the admin client ends the process where a group is not there or its coordinator not ready
    # (confluent-kafka-python issue 1982)
    with closing(Consumer(_client(brokers, command_config) | ours)) as consumer:
        found = _retrying(lambda: consumer.committed(wanted, SECONDS))
    if wrong := next((partition.error for partition in found if partition.error), None):
        raise KafkaException(wrong)
    return {partition.partition: partition.offset for partition in found if partition.offset >= 0}


@contextmanager
def asked(place: str) -> Iterator[None]:
    """Turns errors of a broker's client inside the `with` block into errors of hardpack's.

    Args:
        place: what is asked, named in the error.

    Raises:
        BadInput: the topic does not exist, a name or property is wrong, or the user may not describe topic or group.
        Unavailable: the broker does not answer.
    """
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        code = error.args[0]
        if code.code() == code.UNKNOWN_TOPIC_OR_PART:
            raise BadInput(f"{place}: the broker has no such topic; mend its name.") from None
        if code.code() == code._INVALID_ARG:
            raise BadInput(f"{place}: the client refuses a property or a name ({code.str()}); mend it.") from None
        if code.code() in (code.TOPIC_EXCEPTION, code.INVALID_GROUP_ID):
            raise BadInput(f"{place}: the broker takes no such name ({code.str()}); mend it.") from None
        if code.code() in (code.TOPIC_AUTHORIZATION_FAILED, code.GROUP_AUTHORIZATION_FAILED):
            raise BadInput(
                f"{place}: the broker does not tell this user ({code.str()}); let it describe the topic or group."
            ) from None
        raise Unavailable(f"{place}: the broker does not answer ({code.str()}); try again.") from None
    except TimeoutError:
        raise Unavailable(f"{place}: the broker does not answer within {SECONDS} s; try again.") from None


def _client(brokers: str, command_config: Path | None) -> dict[str, Any]:
    usual = {"bootstrap.servers": brokers, "log_level": 0, "socket.timeout.ms": SECONDS * 1000}
    return usual | _properties(command_config)


def _retrying(ask: Callable[[], T]) -> T:
    """Asks a broker, and asks again while its group coordinator is not ready, as just after it has started.

    Raises:
        KafkaException: the broker refuses, or its coordinator is not ready within `SECONDS`.
    """
    from confluent_kafka import KafkaException

    passing = retry_if_exception(lambda error: isinstance(error, KafkaException) and _passes(error.args[0]))
    return Retrying(
        retry=passing, stop=stop_after_delay(SECONDS), wait=wait_random_exponential(multiplier=0.2, max=2), reraise=True
    )(ask)


def _passes(error: Any) -> bool:
    passing = (error.COORDINATOR_LOAD_IN_PROGRESS, error.COORDINATOR_NOT_AVAILABLE, error.NOT_COORDINATOR)
    return error.code() in passing


def _properties(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        lines = [line.strip() for line in trusted(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise BadInput(
            f"{path} cannot be read as a file of a Kafka client's properties; mend the name or the file."
        ) from None
    properties = dict[str, str]()
    for number, line in enumerate(lines, 1):
        if not line or line.startswith(("#", "!")):
            continue
        pair = PROPERTY.fullmatch(line)
        if pair is None or line.endswith("\\"):
            # the error does not quote the line, which may hold a password or the rest of one
            raise BadInput(f"{path}: line {number} is no property, expected NAME=VALUE in one line; mend it.")
        properties[pair["name"]] = pair["value"]
    if loads := [name for name in properties if name.startswith(LOADS)]:
        raise BadInput(f"{path}: {loads[0]} makes the client run what lies there, which is not done here; take it out.")
    return properties
