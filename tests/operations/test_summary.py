"""A table in a few numbers: what its snapshots' summaries tell of writers and passes."""

import hashlib
from pathlib import Path

import pytest
from hardpack.compaction.report import LogReport, PassReport
from hardpack.operations.status import table_status
from hardpack.operations.summary import history, summarize
from hardpack.rules.settings import origins
from hardpack.table.packing import PassFolder
from hardpack.table.state import PASS_SUMMARY, PLAN_SUMMARY

from tests.topics import T0, append, new_topic, row, session_of


def pass_over(table, kept, now, logs=1):
    """A snapshot as a pass leaves it: some rows less, the report in its summary, or in a file where logs are many."""
    before = table.inspect.files()["file_size_in_bytes"].to_pylist()
    reports = tuple(
        LogReport(
            partition=log, checkpoint_before=None, checkpoint_after=9, log_end=9, rows_before=3, rows_after=kept,
            bytes_before=sum(before), bytes_after=sum(before) // 2, superseded=3 - kept, gate_read=sha256(b"%d" % log),
        )
        for log in range(logs)
    )  # fmt: skip
    report = PassReport(table="x", phase="one", plan="p", now=now, base=1, logs=reports)
    text = PassFolder.of(table).kept(report.summary_json())
    table.delete(f"offset < {3 - kept}", snapshot_properties={PLAN_SUMMARY: "one:p", PASS_SUMMARY: text})
    return text, reports


def sha256(text):
    return hashlib.sha256(text).hexdigest()


def test_history_and_summary_of_a_table_with_a_pass(catalog):
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "a"), row(2, "a")]})
    _, (log,) = pass_over(table, 1, T0 + 5)
    append(table, {0: [row(3, "a")], 1: [row(0, "b")]})

    moments = history(table.refresh())
    assert [bool(m.ended) for m in moments] == [False, True, False]
    first, passed, last = moments
    assert (first.dirty, passed.dirty) == (1.0, 0.0)
    assert last.since_pass == last.added == last.bytes - passed.bytes > 0

    logs = table_status(session_of(table), T0)
    found = summarize(table, logs, moments)
    assert (found.logs, found.rows, found.passes, found.last_pass) == (2, 3, 1, T0 + 5)
    assert found.reclaimed == log.bytes_before - log.bytes_after
    brought = first.added + last.added
    assert found.write_amplification == (brought + passed.added) / brought
    assert found.ratio == max(entry.ratio for entry in logs)


@pytest.mark.parametrize(("logs", "begins"), [(1, "{"), (10, "z1:"), (300, "file:")])
def test_passes_of_many_logs_are_told_too(catalog, logs, begins):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "a"), row(2, "a")]})
    text, reports = pass_over(table, 1, T0 + 5, logs)
    assert text.startswith(begins)
    table.refresh()
    moments = history(table)
    ended = moments[-1].ended
    assert (ended.logs, ended.rows_before, ended.rows_after, ended.removed) == (
        logs, 3 * logs, logs, {"superseded": 2 * logs},
    )  # fmt: skip
    found = summarize(table, table_status(session_of(table), T0), moments)
    assert (found.passes, found.last_pass) == (1, T0 + 5)
    assert found.reclaimed == sum(log.bytes_before - log.bytes_after for log in reports)


def test_a_pass_whose_report_is_lost_is_no_writer(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "a"), row(2, "a")]})
    pass_over(table, 1, T0 + 5, logs=300)
    (file,) = Path(table.location().removeprefix("file://")).glob("metadata/hardpack-passes/*")
    away, known = file.rename(file.with_name("away")), {}
    moments = history(table.refresh(), known)
    assert (moments[-1].ended, moments[-1].since_pass) == (None, 0)
    found = summarize(table, [], moments)
    assert (found.passes, found.write_amplification) == (
        0, (moments[0].added + moments[1].added) / moments[0].added,
    )  # fmt: skip
    away.rename(file)
    ended = history(table, known)[-1].ended
    assert ended, "what could not be read was remembered"
    file.unlink()
    assert history(table, known)[-1].ended == ended, "it was read again"
    known[1] = ended
    history(table, known)
    assert 1 not in known, "a snapshot that has expired is remembered"


def test_a_table_without_history(catalog):
    table = new_topic(catalog)
    found = summarize(table, table_status(session_of(table), T0), history(table))
    assert (found.logs, found.bytes, found.last_pass, found.write_amplification) == (0, 0, None, None)


def test_where_settings_come_from():
    found = origins(
        {"hardpack.null.keys": "drop", "write.target-file-size-bytes": "5"}, {"null.keys": "x", "late.rows": "refuse"}
    )
    assert found["null.keys"] == "table"
    assert found["late.rows"] == "policy"
    assert found["segment.bytes"] == "write.target-file-size-bytes"
    assert found["audit.rows"] == "default"
