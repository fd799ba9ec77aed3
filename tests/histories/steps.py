"""Steps: small records that are all a history consists of, so that it replays from a list, a script or a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One thing that happens: `kind` names a function of `foreign` or `verbs`, `args` are its arguments."""

    kind: str
    args: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Step({self.kind!r}, {self.args!r})" if self.args else f"Step({self.kind!r})"


def to_json(steps: list[Step]) -> str:
    """A history as JSON, one step a line."""
    return "[\n" + ",\n".join(json.dumps([s.kind, s.args]) for s in steps) + "\n]\n"


def from_json(text: str) -> list[Step]:
    """The history that `to_json` wrote."""
    return [Step(kind, args) for kind, args in json.loads(text)]


def to_script(steps: list[Step], rule: str = "") -> str:
    """A Python script that replays a history."""
    lines = "".join(f"        {step!r},\n" for step in steps)
    head = f"# breaks: {rule}\n" if rule else ""
    return f"{head}from tests.histories import Step, replay\n\nreplay(\n    [\n{lines}    ]\n)\n"
