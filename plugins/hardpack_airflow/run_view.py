"""A run's report as people read it: in one line of a list, and by table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from hardpack_airflow.report import as_gates_read
from hardpack_airflow.stored import path_in_docs

if TYPE_CHECKING:
    from hardpack.compaction.report import LogReport, PassReport, PlannedLog, RunReport, VerifyReport
    from hardpack.rules.causes import Cause

MOST_DOCS = 50
"""Most pages of Data Docs that a list of runs keeps of each run."""
MOST_REASONS = 3
"""Most logs of a table for which a page says why they were cleaned."""


@dataclass(frozen=True)
class TableOfRun:
    """What one run did to one table; sizes are bytes."""

    name: str
    passes: list[PassReport]
    verified: list[VerifyReport]
    planned: list[PlannedLog]

    @property
    def why(self) -> str:
        """Why the run worked on the table, by its first logs; empty in reports of older versions."""
        said = [one.reason if one.partition is None else f"log {one.partition}, {one.reason}" for one in self.planned]
        more = len(said) - MOST_REASONS
        rest = [f"and {more} more log{'s' * (more > 1)}"] if more > 0 else []
        return "; ".join([*said[:MOST_REASONS], *rest])

    @property
    def _logs(self) -> list[LogReport]:
        return [log for one in self.passes for log in one.logs]

    def _before_and_after(self, field: str) -> tuple[int, int]:
        """Returns two sums of a field over all logs: before each log's first pass, and after each log's last."""
        first = {log.partition: getattr(log, f"{field}_before") for log in reversed(self._logs)}
        last = {log.partition: getattr(log, f"{field}_after") for log in self._logs}
        return sum(first.values()), sum(last.values())

    @cached_property
    def rows(self) -> tuple[int, int]:
        """Rows before and after."""
        return self._before_and_after("rows")

    @cached_property
    def bytes(self) -> tuple[int, int]:
        """Size before and after."""
        return self._before_and_after("bytes")

    @property
    def saved(self) -> int:
        """Bytes that left the table."""
        return self.bytes[0] - self.bytes[1]

    @property
    def logs(self) -> int:
        """How many logs a pass worked on."""
        return len({log.partition for log in self._logs})

    @property
    def causes(self) -> dict[Cause, int]:
        """Rows that were removed, by cause."""
        from hardpack.rules.causes import removed_by_cause

        return removed_by_cause(self._logs)

    @property
    def removed(self) -> int:
        """Rows that were removed, whatever the cause."""
        return sum(self.causes.values())

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes read and written."""
        return sum(log.bytes_read for log in self._logs), sum(log.bytes_written for log in self._logs)

    @property
    def seconds(self) -> float:
        """Seconds of all passes and verifications together."""
        return sum(one.seconds for one in self.passes) + sum(one.seconds for one in self.verified)

    @property
    def verdict(self) -> str:
        """What verification found, in words."""
        if not self.verified:
            return "not verified"
        said = "every guarantee holds" if self.holds else "a guarantee is broken"
        said += as_gates_read(sum(report.not_read_again for report in self.verified))
        own = [one.success for report in self.verified for one in report.own]
        return said if all(own) else f"{said}, {own.count(False)} of {len(own)} of your own expectations failed"

    @property
    def holds(self) -> bool:
        """Whether no guarantee was found broken."""
        return all(one.success for one in self.verified)

    @property
    def was_cleaned(self) -> bool:
        """Whether a pass published something; another may have found that there was nothing left to do."""
        return any(one.snapshot for one in self.passes)

    @property
    def notes(self) -> list[str]:
        """Why planned logs were not cleaned after all, and what else there is to say."""
        return [note for one in self.passes for note in one.notes] + [one.note for one in self.verified if one.note]

    @property
    def docs(self) -> list[str]:
        """The paths of the table's pages inside Data Docs."""
        pages = [one.data_docs for one in self.passes] + [page for one in self.verified for page in one.data_docs]
        return [path for page in pages if (path := path_in_docs(page))]


def tables_of(report: RunReport) -> list[TableOfRun]:
    """Returns what a run did, by table; those with most bytes saved first."""
    tables: dict[str, TableOfRun] = {}
    for one in (*report.phase_one, *report.phase_two):
        tables.setdefault(one.table, TableOfRun(one.table, [], [], [])).passes.append(one)
    for checked in report.verify:
        tables.setdefault(checked.table, TableOfRun(checked.table, [], [], [])).verified.append(checked)
    for log in report.planned:
        # a table on which no pass ended has an error in the report instead
        if log.table in tables:
            tables[log.table].planned.append(log)
    return sorted(tables.values(), key=lambda table: -table.saved)


def verdict(report: RunReport, tables: Sequence[TableOfRun]) -> str:
    """Returns how a run ended, in one sentence.

    Args:
        report: the run's.
        tables: what `tables_of` finds in it.
    """
    broken, errors = sum(not table.holds for table in tables), len(report.errors)
    cleaned = sum(table.was_cleaned for table in tables)
    said = [f"{cleaned} table{'s' * (cleaned != 1)} cleaned"] if cleaned else ["Nothing was cleaned"]
    said += [f"{broken} with a broken guarantee"] if broken else []
    said += [f"{errors} problem{'s' * (errors != 1)}"] if errors else []
    return ", ".join(said) + "."


@dataclass(frozen=True)
class RunInBrief:
    """What lists say of a run, in place of its report, which has all logs and may take hundreds of megabytes."""

    run: str
    dag: str
    catalog: str
    now: int
    """The run's time, ms."""
    errors: tuple[str, ...]
    verdict: str
    went_well: bool
    removed: int
    """Rows that were removed."""
    saved: int
    """Bytes that left the tables."""
    seconds: float
    """How long all passes and verifications took together."""
    tables: Mapping[str, tuple[str, str]]
    """For each table, in words, why the run worked on it and what became of it."""
    docs: tuple[str, ...]
    """The paths of its first `MOST_DOCS` pages inside Data Docs."""

    @classmethod
    def of(cls, report: RunReport) -> RunInBrief:
        """Returns a report in brief."""
        tables = tables_of(report)
        return cls(
            report.run, report.dag, report.catalog, report.now, tuple(report.errors), verdict(report, tables),
            not report.errors and all(table.holds for table in tables), sum(table.removed for table in tables),
            sum(table.saved for table in tables), sum(table.seconds for table in tables),
            {table.name: (table.why, f"{table.removed:,} rows removed, {table.verdict}") for table in tables},
            tuple(islice((path for table in tables for path in table.docs), MOST_DOCS)),
        )  # fmt: skip

    def of_table(self, table: str) -> tuple[str, str]:
        """Returns why the run worked on a table and what became of it, in words; both empty when it did not."""
        why, said = self.tables.get(table, ("", ""))
        errors = [error for error in self.errors if error.startswith(f"{table}: ")]
        return why, "; ".join([*errors, *([said] if said else [])])
