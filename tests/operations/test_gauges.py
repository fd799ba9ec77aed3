"""Gauges by the names of Kafka's cleaner."""

from dataclasses import replace

from hardpack.compaction.plan import FilesToSplit, LogPlan, Plan, PlanRequest
from hardpack.compaction.report import LogReport, PassReport
from hardpack.operations.gauges import cleaned, sensed
from hardpack.rules.model import DataFile
from hardpack.rules.settings import Settings


def log(**changes):
    usual = {
        "partition": 0, "action": "none", "reason": "", "checkpoint": 0, "first_dirty": 0, "first_uncleanable": 9,
        "bound": 9, "last_stable": None, "log_end": 9, "clean_bytes": 0, "cleanable_bytes": 10, "ratio": 0.0,
        "overdue_ms": 0, "expired": (),
    }  # fmt: skip
    return LogPlan(**usual | changes)


def plan(*logs, now=1000):
    return Plan(table="a.b", uuid="u", snapshot=1, now=now, force=False, settings=Settings(), logs=logs)


def test_the_dirtiest_and_the_latest_of_all_tables():
    found = sensed([plan(log(ratio=0.25, overdue_ms=1500)), plan(log(ratio=0.5))], 9_500, since=300)
    assert found == {
        "max-dirty-percent": 50.0, "max-compaction-delay-secs": 1.5, "uncleanable-partitions-count": 0.0,
        "uncleanable-bytes": 0.0, "paused-partitions-count": 0.0, "time-since-last-run-ms": 300.0,
        "last-look-time-secs": 9,
    }  # fmt: skip


def test_a_log_that_is_uncleanable_counts_apart():
    found = sensed([plan(log(ratio=0.9, overdue_ms=9, held=True), log(ratio=0.1))], 0)
    assert found["max-dirty-percent"] == 10.0
    assert found["max-compaction-delay-secs"] == 0
    assert (found["uncleanable-partitions-count"], found["uncleanable-bytes"]) == (1.0, 10.0)
    assert "time-since-last-run-ms" not in found
    assert sensed([], 0)["max-dirty-percent"] == 0


def test_a_paused_log_is_no_candidate_and_not_uncleanable():
    found = sensed([plan(log(ratio=0.9, overdue_ms=9, paused=True), log(ratio=0.1))], 0)
    assert (found["max-dirty-percent"], found["max-compaction-delay-secs"]) == (10.0, 0.0)
    assert (found["paused-partitions-count"], found["uncleanable-partitions-count"]) == (1.0, 0.0)


def test_a_log_that_is_deleted_by_segments_alone_is_none_of_the_cleaners():
    settings = Settings.model_validate({"cleanup.policy": "delete"})
    deleted = plan(log(ratio=1.0, overdue_ms=9)).model_copy(update={"settings": settings})
    found = sensed([deleted, plan(log(ratio=0.1))], 0)
    assert (found["max-dirty-percent"], found["max-compaction-delay-secs"]) == (10.0, 0.0)


def test_a_table_that_cannot_be_read_counts_as_one_log():
    assert sensed([plan(log(held=True))], 0, unreadable=2)["uncleanable-partitions-count"] == 3.0


def report(snapshot, read, written, seconds, repeated=False, full=None):
    logs = (
        LogReport(
            partition=0, checkpoint_before=0, checkpoint_after=1, log_end=1, rows_before=1, rows_after=1,
            bytes_before=100, bytes_after=50, bytes_read=read, bytes_written=written,
            buffer_utilization_percent=full,
        ),
    )  # fmt: skip
    return PassReport(
        table="a.b", phase="one", plan="p", now=1, base=1, snapshot=snapshot, seconds=seconds, logs=logs,
        repeated=repeated,
    )  # fmt: skip


def test_what_was_copied_of_what_was_read():
    found = cleaned([report(1, 100, 30, 2.5), report(2, 300, 70, 1.0), report(3, 9, 9, 99.0, repeated=True)])
    assert found == {"cleaner-recopy-percent": 25.0, "max-clean-time-secs": 2.5}
    assert cleaned([report(1, 0, 0, 1.0)])["cleaner-recopy-percent"] == 0
    assert cleaned([report(None, 1, 1, 1.0)]) == {}


def test_the_fullest_offset_map_of_those_that_are_bounded():
    done = [report(1, 1, 1, 1.0), report(2, 1, 1, 1.0, full=35.5), report(3, 1, 1, 1.0, full=90.0)]
    assert cleaned(done)["max-buffer-utilization-percent"] == 90.0
    assert "max-buffer-utilization-percent" not in cleaned(done[:1])


def test_files_that_nobody_splits_are_dirty_and_late():
    split = FilesToSplit(files=1, bytes=10, overdue_ms=5000)
    gauges = sensed([plan().model_copy(update={"split": split})], 0)
    assert (gauges["max-dirty-percent"], gauges["max-compaction-delay-secs"]) == (100, 5)


def test_how_late_they_are_counts_from_their_oldest_row():
    file = DataFile("f", 10, 1, 0, 0, 1000, 1000, 0, 0)
    late = Settings(max_compaction_lag_ms=500)
    assert [FilesToSplit.of([file], late, PlanRequest(now)).overdue_ms for now in (1400, 1600)] == [0, 100]
    assert FilesToSplit.of([file], Settings(), PlanRequest(10**15)).overdue_ms == 0
    assert FilesToSplit.of([], late, PlanRequest(0)) is None
    # a row without a time is not older than all others
    assert FilesToSplit.of([replace(file, min_timestamp=-1)], late, PlanRequest(1600)).overdue_ms == 0
