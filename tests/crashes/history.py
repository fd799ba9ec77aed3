"""One topic that goes on: appended to, cleaned with an accident on the way, and compared with the reference cleaner."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlparse

from hardpack.rules.reference.cleaner import Log, LogSegment, append_segment, clean
from hardpack.rules.settings import read_settings
from hardpack.table.history import trusted_states
from hardpack.table.state import state_of

from tests.topics import T0, append, name_of, new_topic, random_rows, rows_of

PARTITIONS = (0, 1)
RULES = {"min_cleanable_dirty_ratio": 0, "delete_retention_ms": 2500, "null_keys": "drop"}
ROUND_MS = 1000
SHAPES = ((False, True), (True, False), (False, False))
"""Whether a history has deletion vectors, and whether its passes end in portions."""


@dataclass
class History:
    """A table and, by partition, what the reference cleaner says it holds."""

    catalog: object
    rng: random.Random
    vectors: bool
    in_portions: bool = False
    """Whether each commit takes no more than one file."""
    now: int = T0
    logs: dict[int, Log] = field(default_factory=dict)

    def __post_init__(self):
        rules = RULES | ({"deletion_vector_min_bytes": 0, "deletion_vector_max_ratio": 1} if self.vectors else {})
        rules |= {"segment_bytes": 14} if self.in_portions else {}
        self.table = new_topic(self.catalog, **rules)
        if self.vectors:
            with self.table.transaction() as change:
                change.set_properties({"write.delete.mode": "merge-on-read"})
        self.name = name_of(self.table)
        self.settings = read_settings(self.name, self.table.refresh().properties)
        for _ in range(2):
            self.grow()

    def grow(self):
        """One commit with a file for each partition."""
        self.now += ROUND_MS
        new = {}
        for p in PARTITIONS:
            start = self.logs[p].rows[-1].offset if p in self.logs else -1
            new[p] = random_rows(self.rng, start, self.rng.randint(5, 20), keys=12)
            segment = LogSegment(new[p][0].offset, tuple(new[p]))
            self.logs[p] = append_segment(self.logs[p], segment) if p in self.logs else Log((segment,))
        append(self.table.refresh(), new)

    def plan(self, hp):
        """What to do about it now."""
        plan = hp.plan(self.name, now=self.now)
        return plan.model_copy(update={"unit_bytes": 1}) if self.in_portions else plan

    def rows(self):
        """What the table holds now."""
        return {p: rows_of(self.table, p) for p in PARTITIONS}

    def checkpoints(self):
        """As the table's state has them now, -1 before the first pass."""
        states = trusted_states(self.table.refresh())
        return {p: -1 if (c := state_of(states, p).checkpoint) is None else c for p in PARTITIONS}

    def clean_on_paper(self):
        """One whole pass of the reference cleaner."""
        self.logs = {p: clean(log, self.settings, self.now).log for p, log in self.logs.items()}

    def differences(self):
        """Where the table is not what the reference cleaner left."""
        seen, marks = self.rows(), self.checkpoints()
        wrong = [f"{self.name}/{p} rows" for p, log in self.logs.items() if tuple(seen[p]) != log.rows]
        return wrong + [f"{self.name}/{p} checkpoint" for p, log in self.logs.items() if marks[p] != log.checkpoint]

    def files(self):
        """All files in the table's folder of data, Hadoop's checksums too."""
        return [p for p in Path(urlparse(self.table.location()).path, "data").rglob("*") if p.is_file()]

    def orphans(self):
        """Data and delete files among them that no snapshot knows of."""
        known = self.table.refresh().inspect.all_files()["file_path"].to_pylist()
        kept = {urlparse(path).path for path in known}
        return [p for p in self.files() if p.suffix in (".parquet", ".puffin") and str(p) not in kept]
