"""Named points at which a test makes a pass die, fail or lose its connection; in a user's hands they do nothing.

Armed by the environment, `HARDPACK_FAULT="rewritten=kill"`, or by `arm` in the same process. A point costs one
comparison while nothing is armed.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Literal, get_args

Point = Literal[
    "begun", "dead rows found", "file written", "rewritten", "vectors written", "gate passed", "before swap",
    "after swap", "committed",
]  # fmt: skip
"""In the order of a pass. `file written` is reached in Spark's tasks, `vectors written` only where there are any."""
Action = Literal["stop", "fail", "lose", "kill"]
"""What happens: the driver's code ends there with nothing tidied up, an error is raised, a connection is lost, or the
process is killed outright."""
POINTS: tuple[Point, ...] = get_args(Point)
ACTIONS: tuple[Action, ...] = get_args(Action)


class Stopped(BaseException):
    """The end of a process as far as its own code can tell: nothing catches it to tidy up."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An action that happens at a point of a pass, once the point has been passed `skip` times."""

    point: Point
    action: Action
    skip: int = 0

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Reads a fault from `point=action`.

        Raises:
            ValueError: there is no such point or action.
        """
        name, _, what = text.partition("=")
        point = next((p for p in POINTS if p == name), None)
        action = next((a for a in ACTIONS if a == what), None)
        if point is None or action is None:
            raise ValueError(f"HARDPACK_FAULT={text!r} names no point and action; points: {', '.join(POINTS)}.")
        return cls(point, action)


_armed: Fault | None = Fault.parse(os.environ["HARDPACK_FAULT"]) if "HARDPACK_FAULT" in os.environ else None
_passed = 0


def arm(fault: Fault | None) -> None:
    """Arms a fault in this process, and in the Spark tasks that it starts; None disarms."""
    global _armed, _passed
    _armed, _passed = fault, 0


def armed() -> Fault | None:
    """Returns the armed fault, None without one; a Spark task takes it along."""
    return _armed


def reach(point: Point) -> None:
    """Lets a fault that is armed for this point happen, once; a pass calls it where it reaches the point."""
    global _passed
    if _armed is None or _armed.point != point:
        return
    _passed += 1
    if _passed <= _armed.skip:
        return
    action = _armed.action
    arm(None)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        raise Stopped(point)
    if action == "lose":
        raise ConnectionResetError(f"lost at {point!r}")
    raise RuntimeError(f"failed at {point!r}")
