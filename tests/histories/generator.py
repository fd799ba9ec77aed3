"""Histories at random: every one enables some kinds of steps and some settings only, so that rare ones meet."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.histories.situations import SITUATIONS, Situation, gone_back, place
from tests.histories.steps import Step

HOUR, DAY = 3_600_000, 86_400_000
LONG_MAX = str(2**63 - 1)
SETTINGS: dict[str, list[str]] = {
    "cleanup.policy": ["compact", "compact", "compact,delete", "delete"],
    "min.cleanable.dirty.ratio": ["0", "0", "0.3", "0.5", "1"],
    "min.compaction.lag.ms": ["0", str(HOUR), str(DAY), LONG_MAX],
    "max.compaction.lag.ms": [str(DAY), str(30 * DAY), LONG_MAX],
    "delete.retention.ms": ["0", "1", str(HOUR), str(DAY), LONG_MAX],
    "segment.bytes": ["14", "400", "1073741824", "2147483647"],
    "retention.ms": ["-1", "0", str(DAY), str(30 * DAY), LONG_MAX],
    "retention.bytes": ["-1", "0", "400", LONG_MAX],
    "idle.tombstones": ["keep", "expire"],
    "late.rows": ["clean", "clean", "refuse"],
    "null.keys": ["refuse", "drop"],
    "segment.ms": ["1", str(DAY), LONG_MAX],
    "active.segment": ["newest", "newest", "newest", "none"],
    "horizon.readers": ["wait", "wait", "ignore"],
    "horizon.readers.limit.ms": ["0", str(HOUR), str(30 * DAY), LONG_MAX],
    "commit.operation": ["overwrite", "replace"],
    "audit.rows": ["1", "8", "1000000"],
    "log.cleaner.dedupe.buffer.size": ["48", "72", "9223372036854775807"],
}
"""Legal values, the extremes among them."""
PROPERTIES = {
    "history.expire.max-snapshot-age-ms": ["0", "1", str(HOUR), LONG_MAX],
    "history.expire.min-snapshots-to-keep": ["1", "3", "2147483647"],
}
BASE = {"append": 10, "advance": 4, "scheduled": 4}
"""Weights of what is in every history."""
SOME = {
    "late": 3, "redeliver": 2, "binpack": 3, "update": 2, "merge": 2, "delete": 2, "insert_overwrite": 2, "truncate": 1,
    "recreate": 1, "rollback": 2, "set_snapshot": 1, "cherry_pick": 1, "evolve": 1, "respec": 1, "upgrade": 1,
    "foreign_expire": 2, "rewrite_manifests": 1, "refer": 1, "negative": 1, "unbounded": 1, "mixed": 1, "skew": 1,
    "clean": 3, "dies": 2, "plan": 2, "apply": 3, "expire_tombstones": 2, "retention": 1, "nightly": 3, "verify": 1,
    "status": 1,
    "pause": 1, "resume": 2, "refuse": 1, "settings": 2, "properties": 1, "ambush": 2, "ahead": 1, "season": 0.3,
    "update_on_read": 1, "drop_hidden": 1, "reader": 3,
}  # fmt: skip
"""Weights of what is in some."""
AMBUSHERS = ["append", "mixed", "late", "binpack", "update", "delete", "insert_overwrite", "truncate", "rollback",
             "recreate", "foreign_expire", "rewrite_manifests", "set_snapshot",
             "clean", "pause", "nightly", "expire_tombstones", "reader"]  # fmt: skip


class Maker:
    """Makes the steps of one history."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.tables = ["t.a"] if rng.random() < 0.8 else ["t.a", "t.b"]
        self.logs = rng.choice([1, 1, 2])
        self.keys = list("abcde"[: rng.randint(2, 5)])
        self.chain = rng.random() < 0.08
        self.unit_bytes = rng.choice([None, None, 1, 300])
        """Most bytes of one commit of a pass."""
        self.sink = rng.random() < 0.15
        """Whether a sink writes that puts the rows of several logs into a file."""
        share = rng.choice([0.15, 0.3, 0.5])
        self.kinds = dict(BASE) | {k: w for k, w in SOME.items() if rng.random() < share}
        if self.unit_bytes == 1:
            # most of what may happen to a pass in portions happens between them
            self.kinds |= {kind: 2 * weight for kind, weight in self.kinds.items() if kind in ("dies", "ambush")}
        self.tombs = rng.choice([0.0, 0.2, 0.4])
        self.keyless = rng.choice([0.0, 0.0, 0.0, 0.1])
        self.odd = rng.choice([0.0, 0.0, 0.15])
        # drawn apart, so that all else of a seed's history stays as it was
        self.apart = random.Random(~seed)
        self.idle = self.apart.random() < 0.25

    def history(self) -> list[Step]:
        rng = self.rng
        steps = [self._create(t) for t in self.tables]
        kinds, weights = list(self.kinds), list(self.kinds.values())
        for kind in rng.choices(kinds, weights, k=rng.randint(14, 40)):
            t = rng.choice(self.tables)
            made: Callable[..., Any] = getattr(self, f"_{kind}", self._plain)
            args = made(t)
            steps.append(args if isinstance(args, Step) else Step(kind, {"t": t, **(args or {})}))
        for name in rng.sample(sorted(SITUATIONS), rng.choice([0, 0, 0, 1, 1, 2])):
            steps = self._with(SITUATIONS[name], steps, rng)
        if self.apart.random() < 0.3:
            for _ in range(self.apart.randint(1, 4)):
                outage = Step("outage", {"reads": self.apart.choice([0, 1, 1, 2, 2, 3, 4, 6])})
                steps.insert(self.apart.randint(len(self.tables), len(steps)), outage)
        if self.apart.random() < 0.08:
            share = self.apart.choice([0, 50, 100, 100])
            replaced = Step("replace_table", {"t": self.apart.choice(self.tables), "share": share})
            steps.insert(self.apart.randint(len(self.tables) + 3, len(steps)), replaced)
        if self.apart.random() < 0.04:
            steps = self._with(gone_back, steps, self.apart)
        return steps

    def _with(self, situation: Situation, steps: list[Step], rng: random.Random) -> list[Step]:
        """The steps with those of a situation among them, on a table that has the settings for it."""
        at = rng.randrange(len(self.tables))
        wants, some = situation(rng, self.tables[at], rng.randrange(self.logs))
        created = steps[at]
        settings = created.args["settings"] | wants
        first = [Step("create", created.args | {"settings": settings}) if s is created else s for s in steps]
        creations = len(self.tables)
        return [*first[:creations], *place(rng, first[creations:], some)]

    def _plain(self, t: str) -> None:
        return None

    def _create(self, t: str) -> Step:
        rng = self.rng
        names = rng.sample(sorted(SETTINGS), rng.randint(0, 5))
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": rng.choice(["0", "0", "0.5"])}
        settings |= {name: rng.choice(SETTINGS[name]) for name in names}
        if int(settings.get("min.compaction.lag.ms", 0)) > int(settings.get("max.compaction.lag.ms", LONG_MAX)):
            del settings["min.compaction.lag.ms"]
        version = rng.choice([2] * 16 + [3] * 3 + [1])
        step = {"t": t, "version": version, "settings": settings, "chain": self.chain,
                "unit_bytes": self.unit_bytes}  # fmt: skip
        some = [] if not self.sink and rng.random() < 0.8 else [("by_log", False)]
        some += [("mute", True)] if rng.random() >= 0.85 else []
        some += [("on_read", True)] if rng.random() < 0.3 else []
        some += [("idle", True)] if self.idle else []
        return Step("create", step | dict(some))

    def _log(self) -> int:
        return self.rng.randrange(self.logs)

    def _key(self) -> str | None:
        if self.rng.random() < self.keyless:
            return None
        return "" if self.rng.random() < 0.02 else self.rng.choice(self.keys)

    def _kind(self) -> str:
        return "tombstone" if self.rng.random() < self.tombs else "value"

    def _rows(self, most: int = 4) -> list[list[Any]]:
        rng, rows = self.rng, []
        for _ in range(rng.randint(1, most)):
            ts = rng.choice([0, -1, None]) if rng.random() < self.odd else "now"
            rows.append([self._key(), self._kind(), rng.choice([1, 1, 1, 2, 3]), ts])
        return rows

    def _append(self, t: str) -> dict[str, Any] | Step:
        if self.sink and self.rng.random() < 0.7:
            return Step("mixed", {"t": t, "rows": self._rows(8)})
        logs = {str(log): self._rows() for log in range(self.logs) if self.rng.random() < 0.75}
        return {"logs": logs or {"0": self._rows()}, **({"chain": True} if self.chain else {})}

    def _unbounded(self, t: str) -> Step:
        return Step("append", {"t": t, "logs": {str(self._log()): self._rows()}, "bounded": False})

    def _mixed(self, t: str) -> dict[str, Any]:
        return {"rows": self._rows(6)}

    def _advance(self, t: str) -> Step:
        return Step("advance", {"ms": self.rng.choice([60_000, HOUR, 6 * HOUR, DAY + HOUR, 7 * DAY, 40 * DAY])})

    def _skew(self, t: str) -> Step:
        return Step("skew", {"ms": self.rng.choice([0, 0, -HOUR, HOUR, -2 * DAY, 40 * DAY])})

    def _ahead(self, t: str) -> Step:
        return Step("ahead", {"t": t, "ms": self.rng.choice([2 * HOUR, 40 * DAY, 365 * DAY])})

    def _late(self, t: str) -> dict[str, Any]:
        rows = [[self.rng.randrange(100), self._key(), self._kind()] for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.2:
            rows += [[0, self._key(), "value"], [99, self._key(), "value"]]
        return {"log": self._log(), "rows": rows, **({"beside": True} if self.sink else {})}

    def _redeliver(self, t: str) -> dict[str, Any]:
        again = self.rng.random() < 0.15
        return {
            "log": self._log(),
            "percent": self.rng.randrange(100),
            "number": self.rng.randint(1, 4),
            "ingested": again,
        }

    def _negative(self, t: str) -> dict[str, Any]:
        return {"log": self._log(), "key": self.rng.choice(self.keys)}

    def _binpack(self, t: str) -> dict[str, Any]:
        mode, share = self.rng.choice(["starting", "replace", "overwrite"]), self.rng.choice([30, 60, 100, 100])
        across = {"across": True} if self.sink and self.rng.random() < 0.5 else {}
        return {"mode": mode, "share": share, "by_key": self.rng.random() < 0.2, **across}

    def _update(self, t: str) -> dict[str, Any]:
        column = self.rng.choice(["ingested", "ingested", "value", "key"])
        everything = column == "ingested" and self.rng.random() < 0.5
        to = {"ingested": None, "value": self.rng.choice(["u", None]), "key": self.rng.choice(self.keys)}[column]
        return {"column": column, "key": None if everything else self.rng.choice(self.keys), "to": to}

    def _merge(self, t: str) -> dict[str, Any]:
        together = self.rng.random() < 0.6
        return {"log": self._log(), "key": self.rng.choice(self.keys), "rows": self._rows(2), "together": together}

    def _delete(self, t: str) -> dict[str, Any]:
        percent = self.rng.choice([30, 60, 100])
        return {"key": self.rng.choice(self.keys), "percent": percent, "on_read": self.rng.random() < 0.4}

    def _update_on_read(self, t: str) -> dict[str, Any]:
        return {"across": self.rng.random() < 0.7, "by_file": self.rng.random() < 0.4}

    def _insert_overwrite(self, t: str) -> dict[str, Any]:
        log = None if self.rng.random() < 0.6 else self._log()
        return {"log": log, "rows": self._rows(6), "from_start": self.rng.random() < 0.6}

    def _rollback(self, t: str) -> dict[str, Any]:
        return {"back": self.rng.choice([1, 1, 2, 3, 5])}

    def _set_snapshot(self, t: str) -> dict[str, Any]:
        return {"pick": self.rng.randrange(100)}

    _cherry_pick = _set_snapshot

    def _evolve(self, t: str) -> dict[str, Any]:
        return {"what": self.rng.choice(["add", "rename", "replace", "restore"])}

    def _upgrade(self, t: str) -> dict[str, Any]:
        return {"to": self.rng.choice([2, 3])}

    def _foreign_expire(self, t: str) -> dict[str, Any]:
        return {"keep": self.rng.choice([1, 1, 2, 4])}

    def _refer(self, t: str) -> dict[str, Any]:
        kind = self.rng.choice(["branch", "tag", "drop"])
        return {"name": self.rng.choice(["x", "y"]), "kind": kind, "pick": self.rng.randrange(100)}

    def _clean(self, t: str) -> dict[str, Any]:
        return {"force": self.rng.random() < 0.5}

    def _dies(self, t: str) -> dict[str, Any]:
        return {"commits": self.rng.randrange(4)}

    def _plan(self, t: str) -> dict[str, Any]:
        return {"slot": self.rng.randrange(2), "force": self.rng.random() < 0.5}

    def _apply(self, t: str) -> dict[str, Any]:
        return {"slot": self.rng.randrange(2), "expire": self.rng.random() < 0.7}

    def _pause(self, t: str) -> dict[str, Any]:
        return {"log": self._log()}

    def _resume(self, t: str) -> dict[str, Any]:
        return {"log": self.rng.choice([None, self._log()]), "trust": self.rng.random() < 0.25}

    def _reader(self, t: str) -> dict[str, Any]:
        name, percent = self.rng.choice(["slow", "fast"]), self.rng.choice([0, 30, 60, 90, 100, 100])
        return {"name": name, "log": self._log(), "percent": None if self.rng.random() < 0.1 else percent}

    def _settings(self, t: str) -> dict[str, Any]:
        name = self.rng.choice(sorted(SETTINGS))
        return {name.replace(".", "__"): self.rng.choice(SETTINGS[name])}

    def _properties(self, t: str) -> dict[str, Any]:
        name = self.rng.choice(sorted(PROPERTIES))
        return {name.replace(".", "__"): self.rng.choice(PROPERTIES[name])}

    def _ambush(self, t: str) -> Step:
        kind = self.rng.choice(AMBUSHERS)
        made: Callable[..., Any] = getattr(self, f"_{kind}", self._plain)
        found = made(t)
        step = [found.kind, found.args] if isinstance(found, Step) else [kind, {"t": t, **(found or {})}]
        return Step("ambush", {"at": self.rng.choice([0, 0, 1, 1, 2, 3]), "step": step})

    def _season(self, t: str) -> dict[str, Any]:
        return {"days": self.rng.choice([10, 20, 30]), "idle": self.rng.random() < 0.5}


def generate(seed: int) -> list[Step]:
    """The history of a seed."""
    return Maker(seed).history()
