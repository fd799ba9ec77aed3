"""Reports as tables for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from hardpack.clock import moment
from hardpack.compaction.plan import Plan
from hardpack.compaction.report import KeyReport, LogReport, MaintenanceReport, PassReport, SplitReport, VerifyReport
from hardpack.errors import plain
from hardpack.operations.describe import TableDescription
from hardpack.operations.readers import ReaderStatus
from hardpack.operations.segments import SegmentStatus
from hardpack.operations.status import LogStatus
from hardpack.operations.writers import Writer
from hardpack.policy import Policy
from hardpack.rules.causes import Cause, removed_by_cause, rows_removed
from hardpack.rules.settings import Settings, dotted

if TYPE_CHECKING:
    from hardpack.operations.doctor import DoctorReport
    from hardpack.reading.seek import Found


LEAST_WIDTH = 24
"""Least width of the last column in any terminal, in letters, where its cells are that long."""


def unknown(number: int | None) -> int | str:
    """Returns a number, or a question mark for None, which the metadata does not tell."""
    return "?" if number is None else number


class Fitted(Table):
    """A table that leaves out columns where a terminal is too narrow for all."""

    spare: Sequence[str] = ()
    """Headings of the columns to leave out, one after another in this order."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the table with the columns that fit. A pipe counts as wide, and `--json` has all."""
        fitted = copy(self)
        for name in self.spare:
            *others, last = [fitted._measure_column(console, options, column) for column in fitted.columns]
            if sum(width.maximum for width in others) + last.minimum + fitted._extra_width <= options.max_width:
                break
            shown = [column for column in fitted.columns if column.header != name]
            fitted.columns = [replace(column, _index=at) for at, column in enumerate(shown)]
        *before, column = fitted.columns
        taken = sum(fitted._measure_column(console, options, one).minimum for one in before) + fitted._extra_width
        if column.min_width and options.max_width - taken < column.min_width:
            # a column that is wider than what is left would be cut without a sign
            fitted.columns = [*before, replace(column, min_width=max(1, options.max_width - taken))]
        yield from Table.__rich_console__(fitted, console, options)


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], spare: Sequence[str] = ()) -> Fitted:
    """Returns a table with numbers aligned right; the last column wraps, and the first only where nothing else helps.

    Args:
        title: above it.
        columns: their names.
        rows: a cell for each column.
        spare: columns that are left out, one after another, where a terminal is too narrow.
    """
    out = Fitted(title=_shown(title), title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    out.spare = spare
    cells, last = [list(row) for row in rows], len(columns) - 1
    for at, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[at], int | float) for row in cells)
        widest = max((len(str(row[at])) for row in cells), default=0)
        out.add_column(
            name,
            justify="right" if numeric else "left",
            no_wrap=0 < at < last,
            # a reader has to see that a cell was cut
            overflow="ellipsis" if 0 < at < last else "fold",
            # without a least width rich makes the last column narrow first
            min_width=min(widest, LEAST_WIDTH) if at == last else None,
        )
    for row in cells:
        out.add_row(*map(_cell, row))
    return out


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else _shown(str(value))


def _shown(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def terminal() -> Console:
    """Returns the console that tables are shown on. It does not take brackets and colons of a name for markup.

    A pipe, which has no width, counts as wide.
    """
    return Console(width=None if sys.stdout.isatty() else 150, markup=False, emoji=False)


def status_table(logs: Iterable[LogStatus]) -> Table:
    """Returns a table of how every log stands."""
    return grid(
        "",
        ("log", "rows", "size", "files", "dirty", "checkpoint", "tombstones", "next horizon", "verdict"),
        (
            (
                f"{s.table}/{s.partition}", s.rows, decimal(s.bytes), s.files, f"{s.ratio:.3f}",
                "-" if s.checkpoint is None else f"{s.checkpoint:,}", unknown(s.tombstones_waiting),
                moment(s.next_horizon),
                ("due: " if s.due else "") + s.reason,
            )
            for s in logs
        ),
        spare=("files", "size", "next horizon", "tombstones", "rows", "checkpoint"),
    )  # fmt: skip


def segments_table(segments: Iterable[SegmentStatus]) -> Table:
    """Returns a table of the segments of logs."""
    return grid(
        "",
        ("log", "base offset", "last offset", "rows", "size", "files", "first time", "last time", "tombstones", "part"),
        (
            (
                f"{s.table}/{s.partition}", unknown(s.base_offset), unknown(s.last_offset), s.rows, decimal(s.bytes),
                len(s.files), moment(s.first_timestamp), moment(s.largest_timestamp), unknown(s.tombstones),
                f"{s.part}: {s.trouble}" if s.trouble else s.part,
            )
            for s in segments
        ),
        spare=("files", "first time", "size", "tombstones", "last time", "rows"),
    )  # fmt: skip


def description_tables(described: TableDescription) -> list[Table]:
    """Returns tables of a table's settings, with those that are set first, of its logs and of its readers."""
    by_origin = sorted(described.settings, key=lambda setting: setting.origin == "default")
    settings = grid(
        described.table, ("setting", "value", "from"), [(s.name, s.value or "-", s.origin) for s in by_origin]
    )
    logs = grid(
        f"format version {described.format_version}, snapshot {described.snapshot or '-'}",
        ("log", "start", "end", "checkpoint", "horizons", "tombstones gone below", "late from", "state"),
        (
            (
                str(log.partition), log.log_start, log.log_end, _offset(log.checkpoint),
                "\n".join(f"up to {offset:,}: {moment(at)}" for offset, at in log.horizons) or "-",
                _offset(log.expired_to + 1 or None), _offset(log.late),
                log.trouble or log.uncleanable or (f"paused {log.paused} times" if log.paused else "-"),
            )
            for log in described.logs
        ),
        spare=("start", "tombstones gone below", "late from", "horizons", "end"),
    )  # fmt: skip
    readers = grid(
        "readers",
        ("reader", "goes on at"),
        [(name, ", ".join(f"{o:,} of {log}" for log, o in at.items())) for name, at in described.readers.items()],
    )
    return [settings, logs, *([readers] if described.readers else [])]


def readers_table(readers: Iterable[ReaderStatus]) -> Table:
    """Returns a table of how far each reader is."""
    return grid(
        "",
        ("reader", "log", "goes on at", "log end", "behind", "recorded", "from", "tombstones wait"),
        (
            (
                r.reader, f"{r.table}/{r.partition}", r.position, unknown(r.log_end),
                unknown(None if r.log_end is None else max(0, r.log_end - r.position)),
                moment(r.at), r.source or "by hand", "yes" if r.waited_for else "-",
            )
            for r in readers
        ),
        spare=("recorded", "log end", "from", "behind"),
    )  # fmt: skip


def _offset(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def writer_table(table: str, writer: Writer) -> Group:
    """Returns the sink that wrote a table, where its columns were found, and what that means."""
    mapping = Table.grid(padding=(0, 3, 0, 2), pad_edge=True)
    for name, value in writer.settings.items():
        mapping.add_row(_shown(name), _shown(value))
    meaning = Text("\n".join([*writer.meaning, ""]))
    return Group(
        Text(f"{_shown(table)} was written by {writer.title}"), *([mapping] if writer.settings else []), meaning
    )


def settings_table(outcome: str, settings: Settings, told: Collection[str] = ()) -> Group:
    """Returns a table of the settings in force that differ from their defaults, with what they mean.

    Args:
        outcome: what the table has become, as a sentence without its full stop.
        settings: the settings in force.
        told: names of settings that were shown before.
    """
    values = settings.model_dump()
    own = [
        (dotted(name), ",".join(values[name]) if isinstance(values[name], tuple) else str(values[name]), field)
        for name, field in type(settings).model_fields.items()
        if values[name] != field.default and dotted(name) not in told
    ]
    rest = Text(f"{_shown(outcome)}; {'all other' if own or told else 'all'} settings have their defaults.")
    shown = grid("", ("setting", "value", ""), ((name, value, field.description) for name, value, field in own))
    return Group(shown, rest) if own else Group(rest)


def policies_table(policies: Iterable[Policy]) -> Table:
    """Returns a table of the policies: which tables each names, when they are cleaned, and by which settings."""
    return grid(
        "policies, the first that names a table is the table's",
        ("policy", "catalog", "tables", "schedule", "order", "unit", "pool", "settings", "readers"),
        (
            (
                p.name, p.catalog or "the usual", "\n".join(p.tables), p.schedule or "by hand", p.order,
                decimal(p.unit_bytes), p.pool,
                "\n".join([f"{k}={v}" for k, v in p.settings.items()] + [f"{k} locked" for k in p.given.locked]) or "-",
                "\n".join(f"{r.name} of {r.table}" for r in p.readers) or "-",
            )
            for p in policies
        ),
        spare=("unit", "order", "pool", "catalog", "schedule", "settings"),
    )  # fmt: skip


def plan_table(plan: Plan) -> Table:
    """Returns a table of what a plan would do to each log, and why."""
    title = f"plan {plan.id} of {plan.table} at {moment(plan.now)}"
    if plan.merge_on_read and (share := plan.settings.deletion_vector_max_ratio):
        least = decimal(plan.settings.deletion_vector_min_bytes)
        title += f"; files of {least} or more with at most {share:.0%} dead rows stay, under deletion vectors"
    if plan.split:
        title += f"; {plan.split}"
    return grid(
        title,
        ("partition", "action", "from", "to", "clean", "cleanable", "dirty", "why"),
        (
            (
                p.name, p.action, p.first_dirty, p.first_uncleanable, decimal(p.clean_bytes),
                decimal(p.cleanable_bytes), f"{p.ratio:.3f}", p.reason,
            )
            for p in plan.logs
        ),
        spare=("clean", "cleanable", "from"),
    )  # fmt: skip


def maintenance_table(report: MaintenanceReport) -> Table:
    """Returns a table of what maintenance did."""
    fields = report.model_dump(exclude={"version", "table", "now", "notes", "expired_before"})
    rows = [(name.replace("_", " "), value) for name, value in fields.items()]
    rows += [("snapshots may go that are older than", moment(report.expired_before))]
    return grid(f"maintenance of {report.table}", ("", ""), [*rows, *(("note", note) for note in report.notes)])


def doctor_table(report: DoctorReport) -> Table:
    """Returns a table of the doctor's checks and what they found, in order."""
    title = f"catalog {report.catalog}: {'all is well' if report.well else 'SOMETHING IS WRONG'}"
    return grid(title, ("", "", ""), ((f.check, "well" if f.well else "NOT WELL", f.found) for f in report.findings))


def pass_table(report: PassReport, dry_run: bool = False) -> Table:
    """Returns a table of what a pass did, log by log.

    Args:
        report: of the pass.
        dry_run: whether nothing was done, so that the table shows what the pass would do.
    """
    outcome = "nothing to do" if report.snapshot is None else f"snapshot {report.snapshot}"
    if report.repeated:
        outcome += ", applied before"
    did = "would do this, nothing was changed" if dry_run and report.logs else f"{outcome}, {report.seconds:g} s"
    title = f"{report.table}, phase {report.phase}: {did}"
    causes = list(removed_by_cause(report.logs))
    columns = ("log", "rows", "bytes", *(cause.label for cause in causes), *PASS_COLUMNS)
    spare = ("vectors", "left alone", "rewritten", "bytes", "waiting", "checkpoint", *(cause.label for cause in causes))
    out = grid(title, columns, (_pass_row(entry, causes) for entry in report.logs), spare)
    out.caption, out.caption_justify = _shown("\n".join(report.notes)), "left"
    return out


def split_table(report: SplitReport, dry_run: bool = False) -> Table:
    """Returns a table of how many mixed files a split found, and how many files it made of them.

    Args:
        report: of the split.
        dry_run: whether nothing was done.
    """
    if report.files:
        rows = [("found", f"{report.files:,} files that may hold rows of several logs, {decimal(report.bytes)}")]
        became = "nothing yet; the next pass splits them" if dry_run else f"{report.files_written:,} files of one log"
        rows += [("became", became)]
        rows += [("page", page) for page in report.data_docs]
    else:
        rows = [("found", "no file that may hold rows of several logs")]
    done = f", snapshot {report.snapshot}, {report.seconds:g} s" if report.snapshot else ""
    return grid(f"{report.table}: split{done}", ("", ""), rows)


PASS_COLUMNS = ("waiting", "checkpoint", "rewritten", "vectors", "left alone")
"""Columns behind those of the causes: tombstones below the checkpoint, the checkpoint, and numbers of files."""


def _pass_row(entry: LogReport, causes: Sequence[Cause]) -> tuple[object, ...]:
    return (
        entry.name, f"{entry.rows_before:,} → {entry.rows_after:,}",
        f"{decimal(entry.bytes_before)} → {decimal(entry.bytes_after)}",
        *(rows_removed(entry, cause) for cause in causes), unknown(entry.tombstones_waiting),
        entry.checkpoint_after or 0, entry.files_rewritten, entry.files_under_vectors,
        entry.files_left_alone,
    )  # fmt: skip


def verify_table(report: VerifyReport) -> Table:
    """Returns a table of what the expectations found."""
    title = f"{report.table}: {'every guarantee holds' if report.success else 'A GUARANTEE IS BROKEN'}"
    if report.note:
        title += f" ({report.note})"
    rows = ((c.expectation, "holds" if c.success else "BROKEN", c.observed) for c in report.checks)
    return grid(title, ("expectation", "finding", "observed"), rows)


def own_table(report: VerifyReport) -> Table:
    """Returns a table of what the user's own expectations found."""
    failed = sum(not one.success for one in report.own)
    title = f"{report.table}: {failed} of {len(report.own)} of your own expectations failed"
    rows = ((c.expectation, c.severity, "holds" if c.success else "FAILED", c.observed) for c in report.own)
    return grid(title, ("expectation", "severity", "finding", "observed"), rows)


def key_table(report: KeyReport) -> Table:
    """Returns a table of what becomes of the rows of a key."""
    title = f"{report.table}: {len(report.rows):,} rows of the key" if report.rows else f"{report.table}: no such key"
    if report.more:
        title += ", the newest; there are older ones"
    return grid(
        title,
        ("log", "offset", "row", "file", "verdict", "not before", "why"),
        (
            (
                str(r.partition), r.offset, "tombstone" if r.tombstone else "value", r.file.rpartition("/")[2],
                r.becomes, moment(r.not_before), r.reason,
            )
            for r in report.rows
        ),
        spare=("file", "row", "not before"),
    )  # fmt: skip


def found_table(table: str, place: Found) -> Table:
    """Returns a table of where a row is."""
    cells = {
        "offset": place.offset,
        "timestamp": f"{place.timestamp}, {moment(place.timestamp)}" if place.timestamp >= 0 else "-",
        "row group": place.row_group,
        "page": place.page,
        "row": place.row,
        "bytes read": place.bytes_read,
    }
    return grid(f"{table}: partition {place.partition}", ("what", "where"), [(k, str(v)) for k, v in cells.items()])
