"""What a pass did, per log: the record that goes into the snapshot's summary, the logs and the command line."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from hardpack.rules.causes import removed_by_cause
from hardpack.rules.horizons import Range
from hardpack.rules.model import Partition
from hardpack.rules.row_verdicts import Becomes

Phase = Literal["one", "two", "retention"]
"""Which pass of the three."""


class LogReport(BaseModel):
    """One log of one pass: rows, bytes and files of the whole log before and after, and removed rows by cause.

    The causes are those of `hardpack.rules.causes`.
    """

    model_config = ConfigDict(frozen=True)

    partition: Partition
    checkpoint_before: int | None
    checkpoint_after: int | None
    log_start: int | None = None
    """Where the log starts after retention."""
    log_end: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int
    bytes_read: int = 0
    """Size of the files that were rewritten."""
    bytes_written: int = 0
    """Size of the new files that were made of them."""
    superseded: int = 0
    null_key: int = 0
    expired_tombstone: int = 0
    aborted: int = 0
    expired_marker: int = 0
    duplicate: int = 0
    retention: int = 0
    copied_to: int | None = None
    """Nothing from this offset on was touched; greater than the checkpoint after a full offset map."""
    latest_to: int | None = None
    """Below this offset each key has one row; None: below the checkpoint."""
    buffer_utilization_percent: float | None = None
    """Keys in the offset map, percent of those that its buffer has slots for; None where it is not bounded."""
    expired: tuple[Range, ...] = ()
    tombstones_waiting: int | None = 0
    """Tombstones below the checkpoint, None when the metadata does not count them."""
    files_rewritten: int = 0
    files_written: int = 0
    files_under_vectors: int = 0
    """Files that stay, their dead rows named in a new deletion vector."""
    files_left_alone: int = 0
    gate_read: str = ""
    """Fingerprint of the files that the pass leaves, if its gate read every row of them. Empty where the gate read a
    sample, where deletes lie on one, and where new rows have a lineage, which a gate cannot read."""

    @property
    def removed(self) -> int:
        """Rows that the pass removed, whatever the cause."""
        return sum(removed_by_cause([self]).values())

    @property
    def name(self) -> str:
        """The text of its partition."""
        return str(self.partition)


class PassReport(BaseModel):
    """One phase of one plan on one table."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    table: str
    phase: Phase
    plan: str
    now: int
    base: int | None
    snapshot: int | None = None
    """The published snapshot, None when there was nothing to do."""
    seconds: float = 0.0
    repeated: bool = False
    """Whether the plan had been applied before, so that nothing was done now."""
    data_docs: str = ""
    portions: tuple[int, ...] = ()
    """Snapshots of the earlier portions of a large pass; `logs` counts what all portions did."""
    logs: tuple[LogReport, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks for people, such as why a planned log was left out."""

    def summary_json(self) -> str:
        """Returns what the snapshot's summary keeps."""
        return self.model_dump_json(exclude={"snapshot", "repeated", "data_docs"})

    def noted(self, note: str) -> Self:
        """Returns the report with a note before the others."""
        return self.model_copy(update={"notes": (note, *self.notes)})

    @classmethod
    def from_summary(cls, text: str, snapshot: int, repeated: bool = False) -> Self:
        """Returns the report that a snapshot's summary keeps."""
        return cls.model_validate_json(text).model_copy(update={"snapshot": snapshot, "repeated": repeated})


class Check(BaseModel):
    """One expectation's finding."""

    expectation: str
    success: bool
    observed: str
    partitions: list[dict[str, int | str]]


class OwnCheck(Check):
    """What one of a user's own expectations found."""

    severity: Literal["critical", "warning", "info"] = "critical"


class VerifyReport(BaseModel):
    """What the expectations found on a published table."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    table: str
    now: int
    success: bool
    passes_hold: bool = True
    """Whether the passes themselves kept the guarantees; false blames hardpack, not writers that changed rows since."""
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()
    own: tuple[OwnCheck, ...] = ()
    """What a user's own expectations found; `success` is that of the guarantees alone."""
    data_docs: tuple[str, ...] = ()
    note: str = ""
    not_read_again: int = 0
    """Logs of which no row was read, as the gates had read every row of their files: all logs, or 0."""

    @property
    def failed_own(self) -> list[str]:
        """Names of the user's own critical expectations that failed."""
        return sorted({one.expectation for one in self.own if not one.success and one.severity == "critical"})


class KeyRow(BaseModel):
    """A row of a key that was asked for; neither key nor value is in it."""

    model_config = ConfigDict(frozen=True)

    partition: Partition
    offset: int
    tombstone: bool
    file: str
    becomes: Becomes
    reason: str
    not_before: int | None
    """It does not go before this time, ms; None when it stays, or nobody knows yet."""


class KeyReport(BaseModel):
    """What becomes of the rows of one key."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    table: str
    snapshot: int | None
    now: int
    rows: tuple[KeyRow, ...] = ()
    """By log, the greatest offset first."""
    more: bool = False
    """Whether there are older rows of the key, which are not shown."""


class MaintenanceReport(BaseModel):
    """What maintenance of one table did."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    table: str
    now: int
    dry_run: bool = False
    seconds: float = 0.0
    rows_past_retention: int = 0
    """Rows that retention took, with whole segments."""
    snapshots_before: int = 0
    snapshots_after: int = 0
    expired_before: int = 0
    """Snapshots older than this time, ms, could go."""
    files_deleted: int = 0
    """Data, delete, manifest and statistics files that only expired snapshots knew of."""
    orphans_deleted: int = 0
    """Files under the table's folders of data and metadata that no snapshot knew of."""
    filters_deleted: int = 0
    """Key filters and kept footers of files that are gone, and what expired passes had written beside the table."""
    manifests_rewritten: int = 0
    notes: tuple[str, ...] = ()
    """What was left undone, and why."""


class SplitReport(BaseModel):
    """What a split of one table's files did."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    table: str
    now: int
    files: int
    """Files with rows of several logs."""
    bytes: int
    files_written: int = 0
    """Files of one log that were made of them; 0 where nothing was done."""
    snapshot: int | None = None
    """The last published snapshot, None when there was nothing to do."""
    seconds: float = 0.0
    data_docs: tuple[str, ...] = ()

    def and_then(self, later: Self) -> Self:
        """Returns one report of this split and a later one, which split files that came while this one ran."""
        summed = ("files", "bytes", "files_written", "seconds", "data_docs")
        sums = {name: getattr(self, name) + getattr(later, name) for name in summed}
        return later.model_copy(update=sums)


class PlannedLog(BaseModel):
    """Why a run works on a log, or why no run will before somebody does something about it."""

    model_config = ConfigDict(frozen=True)

    table: str
    partition: Partition | None = None
    """None for a table whose files have to be split before its logs are known."""
    reason: str

    def __str__(self) -> str:
        """Returns the log and the reason as one line."""
        return f"{self.table if self.partition is None else f'{self.table}/{self.partition}'}: {self.reason}"


class RunReport(BaseModel):
    """What one run of a DAG did: the reports of its units, verb by verb. Counts only, no key and no value."""

    version: Literal[1] = 1
    run: str
    """Airflow's id of the run."""
    dag: str = ""
    catalog: str = ""
    """Where the tables are, by its name in pyiceberg's configuration; empty in reports of older versions."""
    now: int
    """The time that the run acted at, ms."""
    planned: list[PlannedLog] = []
    """Why it worked on each of its logs."""
    held: list[PlannedLog] = []
    """Logs that no run cleans before somebody does something about them; of very many the first."""
    phase_one: list[PassReport] = []
    phase_two: list[PassReport] = []
    verify: list[VerifyReport] = []
    errors: list[str] = []
    """One sentence for each table that was refused or not cleaned, and for units that did not reach the end."""
