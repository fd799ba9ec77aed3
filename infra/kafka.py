"""A real Kafka broker on loopback, and what its log cleaner left, record for record.

python -m infra.kafka
"""

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from confluent_kafka import KafkaException, admin
from hardpack.home import default_home
from hardpack.spark.jars import java_command

from infra.jars import Closure, fetch_closure
from infra.services.process import free_ports

# kafka-tools alone, without the Connect and web server that it asks for but DumpLogSegments does not touch
KAFKA = Closure(
    "kafka",
    """
<dependency org="org.apache.kafka" name="kafka_2.13" rev="4.3.1" conf="default->default"/>
<dependency org="org.apache.kafka" name="kafka-tools" rev="4.3.1" conf="default->master"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
""",
    "8de6f6e54087bb074646d0d324269facce65f730dc259f7453b530da7d1d94c2",
)
SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={log_dir}
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=2100000
log.retention.check.interval.ms=500
log.initial.task.delay.ms=100
log.segment.delete.delay.ms=1000
"""
FORMAT, DUMP = "kafka.tools.StorageTool", "org.apache.kafka.tools.DumpLogSegments"
SEGMENT = re.compile(r"Dumping .*?(\d+)\.log")
BATCH = re.compile(
    r"baseOffset: (\d+) .*producerId: (-?\d+) producerEpoch: (-?\d+) .*isTransactional: (\w+) .*OptionalLong.(\d*)"
)
RECORD = re.compile(r"\| offset: (\d+) \w+: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) .*?headerKeys: \[.*?\](.*)")
MARKERS: dict[str, Literal["commit", "abort"]] = {"COMMIT": "commit", "ABORT": "abort"}


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it lies in a segment file; `segment` and `batch` are base offsets, times are milliseconds."""

    segment: int
    batch: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    producer_id: int | None
    producer_epoch: int
    transactional: bool
    # of a marker, how its transaction ended; its key and value are the broker's own and left out
    control: Literal["commit", "abort"] | None
    # the batch's: from then on a pass removes its tombstones, or a marker whose transaction has no rows left
    delete_horizon: int | None


class Broker:
    """One broker whose storage lives as long as the `with` block; the jars are fetched into hardpack's home once.

    Attributes: `bootstrap` (host:port), `log_dir` (the partitions' folders), `log` (its own log), `admin` (a client).
    """

    def __init__(self, home: Path | None = None) -> None:
        self._jars = fetch_closure(home or default_home(), KAFKA)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="hardpack-kafka-")))
            self.log_dir, self.log, settings = folder / "logs", folder / "server.log", folder / "server.properties"
            port, controller = free_ports(2)
            self.bootstrap = f"127.0.0.1:{port}"
            settings.write_text(SETTINGS.format(port=port, controller=controller, log_dir=self.log_dir))
            self.tool(FORMAT, "format", "-t", self.tool(FORMAT, "random-uuid").strip(), "-c", str(settings))
            log = undo.enter_context(self.log.open("wb"))
            process = subprocess.Popen(self._java("-Xmx1g", "kafka.Kafka", str(settings)), stdout=log, stderr=log)
            undo.callback(process.wait)
            # its storage goes too, so there is nothing to shut down in order
            undo.callback(process.kill)
            self._wait_up(process)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def _java(self, *arguments: str) -> list[str]:
        return [java_command(), "-cp", f"{self._jars}/*", *arguments]

    def tool(self, *arguments: str, measured: bool = False) -> str:
        """Returns what one of Kafka's command line classes prints.

        Args:
            arguments: the class and its arguments.
            measured: whether its speed counts; else Java compiles little, as most runs are too short to be worth it.
        """
        flags = () if measured else ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        command = self._java(*flags, *arguments)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = " ".join((done.stdout + done.stderr).strip().splitlines()[-1:])
            raise RuntimeError(f"{arguments[0]} failed ({said}); see that `java -version` says 17 or newer.")
        return done.stdout

    def _wait_up(self, process: subprocess.Popen[bytes]) -> None:
        # silent, since refused connections are what is waited out
        quiet = {"log_level": 0, "reconnect.backoff.max.ms": 100}
        self.admin = admin.AdminClient({"bootstrap.servers": self.bootstrap, **quiet})
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            with suppress(KafkaException):
                self.admin.list_topics(timeout=1)
                return
        said = " ".join(self.log.read_text().strip().splitlines()[-1:])
        raise RuntimeError(f"Kafka did not come up ({said}); see that 1 GiB of memory is free, then try again.")

    def create_topic(self, name: str, partitions: int, config: dict[str, str]) -> None:
        """Makes a topic with one replica."""
        self.admin.create_topics([admin.NewTopic(name, partitions, 1, config=config)])[name].result()

    def configure(self, topic: str, config: dict[str, str]) -> None:
        """Changes settings of a topic; the broker follows within milliseconds, not at once."""
        change = admin.AlterConfigOpType.SET
        entries = [admin.ConfigEntry(k, v, incremental_operation=change) for k, v in config.items()]
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result()

    def checkpoint(self, topic: str, partition: int) -> int | None:
        """Returns the first offset that is not cleaned, None if no pass was made."""
        file = self.log_dir / "cleaner-offset-checkpoint"
        # two lines of head: version and number of entries
        entries = [line.split() for line in file.read_text().splitlines()[2:]] if file.exists() else []
        return next((int(o) for t, p, o in entries if (t, p) == (topic, str(partition))), None)

    def wait_cleaned(self, topic: str, partition: int, at_least: int, seconds: float) -> None:
        """Waits until the checkpoint has reached an offset; Kafka writes it after the cleaned segments are in place.

        Raises:
            RuntimeError: it has not reached the offset after so many seconds.
        """
        end = time.monotonic() + seconds
        while (found := self.checkpoint(topic, partition) or 0) < at_least:
            if time.monotonic() > end:
                wish = "see that its policy is compact and that a later segment has begun."
                raise RuntimeError(f"{topic}-{partition} is cleaned to {found}, not {at_least}; {wish}")
            time.sleep(0.05)

    def passes(self, topic: str, partition: int) -> list[tuple[int, int]]:
        """Returns the offsets from and up to which each pass so far found the log dirty, as the cleaner logged them."""
        line = rf"cleaned log {re.escape(topic)}-{partition} \(dirty section = \[(\d+), (\d+)\]\)"
        return [(int(start), int(end)) for start, end in re.findall(line, self.log.read_text())]

    def segments(self, topic: str, partition: int) -> list[int]:
        """Returns the base offsets of the segment files, the active one last."""
        return sorted(int(file.stem) for file in (self.log_dir / f"{topic}-{partition}").glob("*.log"))

    def dump(self, topic: str, partition: int) -> list[Record]:
        """Returns every record in the segment files by offset; keys and values must be ASCII without line breaks."""
        names = [f"{self.log_dir}/{topic}-{partition}/{base:020}.log" for base in self.segments(topic, partition)]
        return list(parse(self.tool(DUMP, "--print-data-log", "--files", ",".join(names)).split("\n")))


def parse(lines: Iterable[str]) -> Iterator[Record]:
    """Yields the records that DumpLogSegments prints; a size of -1 tells a null key or value from an empty one."""
    segment, base, producer, epoch, transactional, horizon = 0, "", "", "", "", ""
    for line in lines:
        if found := RECORD.match(line):
            offset, timestamp, key_size, value_size, rest = found.groups()
            control = MARKERS[rest.split()[1]] if rest.startswith(" endTxnMarker: ") else None
            key, value = (None, None) if control else content(rest, int(key_size), int(value_size))
            owner = None if producer == "-1" else int(producer)
            yield Record(
                segment, int(base), int(offset), int(timestamp), key, value, owner, int(epoch),
                transactional == "true", control, int(horizon) if horizon else None,
            )  # fmt: skip
        elif found := BATCH.match(line):
            base, producer, epoch, transactional, horizon = found.groups()
        elif found := SEGMENT.match(line):
            segment = int(found[1])


def content(rest: str, key_size: int, value_size: int) -> tuple[bytes | None, bytes | None]:
    """Returns key and value from ` key: … payload: …`, cut by size, since they may hold such words themselves."""
    key = rest.removeprefix(" key: ")[:key_size].encode() if key_size >= 0 else None
    return key, rest[len(rest) - value_size :].encode() if value_size >= 0 else None


if __name__ == "__main__":
    # SIGTERM stops the broker too, as Ctrl-C does
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), Broker() as broker:
            print(broker.bootstrap, flush=True)
            signal.pause()
    except RuntimeError as error:
        sys.exit(f"hardpack: {error}")
