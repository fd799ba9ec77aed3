"""Kafka's behaviour as data: the case catalogue (YAML) and logs cleaned by Kafka's own classes (JSON lines).

Both have the same fields, explained at the head of `data/kafka_cases.yaml`. `HARDPACK_CASES` names another folder of
YAML files, `HARDPACK_GOLDEN` another file of JSON lines.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hardpack.rules.reference.cleaner import Log, LogSegment, Row
from hardpack.rules.settings import BYTES_PER_KEY, Settings

DATA = Path(__file__).with_name("data")
UNLIMITED = 1_000_000_000
DEFAULTS = {
    "min.cleanable.dirty.ratio": 0.0,
    "delete.retention.ms": 1000,
    "segment.bytes": 2**30,
    "map_slots": UNLIMITED,
    "load_factor": 0.9,
}
OUT_OF_SCOPE = {
    "legacy": "rows of message formats before v2, which have no delete horizons; a table does not carry the format",
    "empty-batch": "what an active producer's emptied last batch holds back; here idle producers count as expired",
}
"""By tag of a case: why the part of it that the tag names has no counterpart in a table."""


@dataclass(frozen=True)
class Step:
    """One step: what to do, at what time, and what then has to hold."""

    do: str
    now: int = 0
    segment: LogSegment | None = None
    settings: Settings | None = None
    offset: int = 0
    high_watermark: int | None = None
    expect: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One log, its settings and the steps to take with it."""

    id: str
    title: str
    tags: tuple[str, ...]
    settings: Settings
    log: Log
    steps: tuple[Step, ...]

    @property
    def out_of_scope(self) -> str:
        """Why the case has no counterpart in a table; empty when it has."""
        if any(r.get("m", 2) < 2 for r in _LEGACY.get(self.id, ())):
            return OUT_OF_SCOPE["legacy"]
        return ""


_LEGACY: dict[str, list[dict[str, Any]]] = {}


def catalogue() -> list[Case]:
    """The executable cases of all YAML files of the folder."""
    folder = Path(os.environ.get("HARDPACK_CASES") or DATA)
    found = [c for path in sorted(folder.glob("*.y*ml")) for c in yaml.safe_load(path.read_text())["cases"]]
    return [_case(c) for c in found if "segs" in c and _is_steps(c.get("steps"))]


def texts() -> list[str]:
    """Ids of the cases that state an outcome in words or in fields of their own."""
    folder = Path(os.environ.get("HARDPACK_CASES") or DATA)
    found = [c for path in sorted(folder.glob("*.y*ml")) for c in yaml.safe_load(path.read_text())["cases"]]
    return [c["id"] for c in found if "segs" not in c or not _is_steps(c.get("steps"))]


def golden() -> list[Case]:
    """The logs that real Kafka cleaned."""
    path = Path(os.environ.get("HARDPACK_GOLDEN") or DATA / "real_kafka.jsonl")
    return [_case(json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


def _is_steps(steps: Any) -> bool:
    return isinstance(steps, list) and all(isinstance(s, dict) and "do" in s for s in steps)


def _case(data: dict[str, Any]) -> Case:
    config = DEFAULTS | data.get("cfg", {})
    rows = [r for s in data["segs"] for r in s["rows"]]
    _LEGACY[data["id"]] = rows
    log = Log(
        segments=tuple(_segment(s) for s in data["segs"]),
        checkpoint=data.get("checkpoint"),
        log_start=data.get("start"),
        high_watermark=data.get("hw"),
    )
    steps = []
    for step in data["steps"]:
        config = config | (step.get("cfg") or step.get("set") or {})
        steps.append(
            Step(
                do=step["do"],
                now=step.get("now", 0),
                segment=_segment(step.get("seg", step)) if step["do"] == "append_segment" else None,
                settings=_settings(config),
                offset=step.get("to", step.get("offset", 0)),
                high_watermark=step.get("hw"),
                expect=step.get("expect", {}),
            )
        )
    return Case(
        data["id"], data.get("title", ""), tuple(data.get("tags", ())),
        _settings(DEFAULTS | data.get("cfg", {})), log, tuple(steps),
    )  # fmt: skip


def _settings(config: dict[str, Any]) -> Settings:
    own = {
        k: v
        for k, v in config.items()
        if k not in ("map_slots", "load_factor", "producer.id.expiration.ms") and k in ALIASES
    }
    if config["map_slots"] < UNLIMITED:
        own["log.cleaner.dedupe.buffer.size"] = config["map_slots"] * BYTES_PER_KEY
    own["log.cleaner.io.buffer.load.factor"] = config["load_factor"]
    return Settings.model_validate(own | {"null.keys": "drop"})


ALIASES = {f.alias for f in Settings.model_fields.values()}


def _segment(data: dict[str, Any]) -> LogSegment:
    rows: list[Row] = []
    label, first = None, 0
    for entry in data["rows"]:
        if entry.get("b") is None or entry.get("b") != label:
            first = entry["o"]
        label = entry.get("b")
        rows.append(_row(entry, first))
    return LogSegment(data["base"], tuple(rows), data.get("lm", 0))


def _row(entry: dict[str, Any], batch: int) -> Row:
    def text(name: str) -> bytes | None:
        return None if entry.get(name) is None else str(entry[name]).encode()

    stamp = entry.get("t", 1000)
    return Row(
        offset=entry["o"],
        key=text("k"),
        value=text("v"),
        timestamp=None if stamp < 0 else stamp,
        bytes=entry.get("bytes", 100),
        producer=entry.get("p"),
        transactional=bool(entry.get("tx") or entry.get("ctl")),
        control=entry.get("ctl"),
        batch=batch,
    )


def compare(where: str, expect: dict[str, Any], seen: dict[str, Any], empties: bool = False) -> list[str]:
    """Sentences on what differs; batches and, unless `empties`, segments without rows are nothing in a table."""
    expect = ({"horizons": {}} if "survivors" in expect else {}) | expect
    wrong = []
    for name, wanted in expect.items():
        if name == "empty_batches":
            continue
        if name == "horizons":
            wanted = {int(o): ms for o, ms in wanted.items()}
        if name == "layout":
            wanted = [s for s in wanted if s[1] or empties]
        if seen.get(name) != wanted:
            wrong.append(f"{where} {name}: {seen.get(name)}, expected {wanted}")
    return wrong
