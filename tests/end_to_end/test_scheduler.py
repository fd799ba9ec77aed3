"""A real scheduler under stress: runs of three kinds at once, tasks killed in each phase, everything cleared."""

import json
import os
import random
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import httpx
import psutil
import pytest
from hardpack.compaction.report import PassReport
from hardpack.rules.reference.cleaner import Log, LogSegment, clean
from hardpack.rules.settings import Settings
from hardpack.table.history import commits
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.topics import append, name_of, new_topic, random_rows, rows_of

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(3000)]
SCHEDULE = "0 0 * * *"
DAY_MS = 86_400_000
VERBS = ("phase_one", "phase_two", "verify")


class Writer:
    """Appends rows to two logs of a topic until it is stopped; knows all it wrote."""

    def __init__(self, site, every=2.0):
        self.table, self.rng, self.rows, self.every = (
            new_topic(site.catalog, null_keys="drop"),
            random.Random(7),
            {},
            every,
        )
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.step()

    def step(self):
        new = {}
        for log in (0, 1):
            known = self.rows.setdefault(log, [])
            new[log] = random_rows(self.rng, known[-1].offset + 1 if known else 0, 40, keys=15)
        # of the last three days, so that a backfill of any of them finds rows
        append(self.table.refresh(), new, at=int(time.time() * 1000) - self.rng.randrange(3 * DAY_MS))
        for log, rows in new.items():
            self.rows[log] += rows

    def _write(self):
        while not self.over.wait(self.every):
            self.step()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def should_be_left(rows, checkpoint):
    """Below the checkpoint what the reference cleaner leaves, above it everything; no horizon has passed."""
    below = tuple(r for r in rows if r.offset < checkpoint)
    outcome = clean(
        Log((LogSegment(0, below),), checkpoint=None, log_start=0),
        Settings.model_validate({"active.segment": "none", "min.cleanable.dirty.ratio": 0, "null.keys": "drop"}),
        1,
    )
    return [*outcome.log.rows, *(r for r in rows if r.offset >= checkpoint)]


def assert_right(writer):
    table = writer.table.refresh()
    states = json.loads(table.properties["hardpack.state"])["logs"]
    for log, rows in writer.rows.items():
        left = should_be_left(rows, states[str(log)]["checkpoint"])
        assert [(r.offset, r.key, r.value) for r in rows_of(table, log)] == [(r.offset, r.key, r.value) for r in left]


def passes(table):
    return [PassReport.from_summary(c.report, c.snapshot) for c in reversed(list(commits(table.refresh())))]


def instances(site, run):
    path = f"dags/hardpack/dagRuns/{run}/taskInstances"
    return site.airflow.call("GET", path)["task_instances"]


def runs(site):
    return site.airflow.call("GET", "dags/hardpack/dagRuns", params={"limit": 100})["dag_runs"]


def wait_for_all(site, seconds=1500):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = runs(site)
        if found and all(run["state"] in ("success", "failed") for run in found):
            return found
        time.sleep(3)
    raise AssertionError([(run["dag_run_id"], run["state"]) for run in runs(site)])


@retry(
    retry=retry_if_exception_type(httpx.HTTPStatusError), stop=stop_after_delay(120), wait=wait_fixed(2), reraise=True
)
def backfill(site, start, end):
    """SQLite answers 503 while the scheduler writes."""
    body = {
        "dag_id": "hardpack", "from_date": start.isoformat(), "to_date": end.isoformat(), "max_active_runs": 2,
        "reprocess_behavior": "none", "dag_run_conf": {"tables": "t.*", "force": True},
    }  # fmt: skip
    return site.airflow.call("POST", "backfills", json=body)


def test_three_kinds_of_runs_at_once_never_clean_together(site, capsys):
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with Writer(site) as writer:
        time.sleep(8)
        # unpaused, the schedule makes a run of the day that has ended
        site.airflow.call("PATCH", "dags/hardpack", json={"is_paused": False})
        site.airflow.trigger("hardpack", {"tables": name_of(writer.table), "force": True})
        backfill(site, midnight - timedelta(days=3), midnight - timedelta(days=1))
        time.sleep(5)
        wait_for_all(site)
        deadline = time.monotonic() + 60
        while len({run["run_type"] for run in runs(site)}) < 3 and time.monotonic() < deadline:
            time.sleep(2)
        found = wait_for_all(site)
    kinds = [run["run_type"] for run in found]
    assert set(kinds) == {"scheduled", "manual", "backfill"}
    assert kinds.count("backfill") >= 2
    assert {run["state"] for run in found} == {"success"}
    spans = sorted(
        (task["start_date"], task["end_date"], run["dag_run_id"], task["task_id"])
        for run in found
        for task in instances(site, run["dag_run_id"])
        if task["task_id"].startswith("unit.") and task["state"] == "success"
    )
    # times are ISO texts of one zone: they sort as they follow each other
    for (_, end, *_), (start, *_) in pairwise(spans):
        assert end <= start, spans
    done = passes(writer.table)
    for before, after in pairwise(done):
        ends = {log.partition: log.checkpoint_after for log in before.logs}
        assert all(ends.get(log.partition, log.checkpoint_before) == log.checkpoint_before for log in after.logs)
    assert done
    assert_right(writer)
    with capsys.disabled():
        print(f"\n{len(found)} runs ({', '.join(sorted(kinds))}), {len(spans)} tasks of units one after another, "
              f"{len(done)} passes committed")  # fmt: skip


def drivers(home):
    """Spark's drivers that work for this home; spark-submit starts another, short-lived JVM before them."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        ours, words = (process.info["environ"] or {}).get("HARDPACK_HOME") == str(home), process.info["cmdline"] or ()
        if ours and "org.apache.spark.deploy.SparkSubmit" in words and "org.apache.spark.launcher.Main" not in words:
            found.append(process)
    return found


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.3)
    raise AssertionError(f"waited {seconds} s for {what}")


def written_while_nothing_runs(site):
    """A topic of some rows; the run that the schedule makes on unpausing is over by then."""
    site.airflow.call("PATCH", "dags/hardpack", json={"is_paused": False})
    wait_until(lambda: runs(site), 60, "the scheduled run")
    wait_for_all(site)
    writer = Writer(site)
    for _ in range(3):
        writer.step()
    return writer


@pytest.mark.parametrize("verb", ["phase_one", "verify"])
def test_a_task_killed_in_the_middle_takes_its_driver_along_and_its_retry_ends_well(site, verb):
    writer = written_while_nothing_runs(site)
    with writer.table.refresh().transaction() as change:
        # else metadata tells that there is nothing to read again
        change.set_properties({"hardpack.audit.rows": "1"})
    run = site.airflow.trigger("hardpack", {"tables": name_of(writer.table), "force": True})

    def running():
        states = {t["task_id"]: t["state"] for t in instances(site, run)}
        mine = [d for d in drivers(site.home) if any(f"/{verb}.py" in word for word in d.info["cmdline"])]
        return states.get(f"unit.{verb}") == "running" and mine

    # a JVM that forks to start another program is two for a moment
    driver = min(wait_until(running, 300, f"a driver of {verb}"), key=lambda process: process.create_time())
    # into the work
    time.sleep(6)
    assert driver.is_running()
    submit = driver
    while submit.parent() and "spark" in " ".join(submit.parent().cmdline()):
        submit = submit.parent()
    task = submit.parent()
    assert task.pid != os.getpid()
    os.kill(task.pid, signal.SIGKILL)
    wait_until(lambda: not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE, 10, "the driver's end")
    states = dict(site.airflow.watch("hardpack", run, timeout=900))
    assert states[""] == "success", states
    tries = {t["task_id"]: t["try_number"] for t in instances(site, run)}
    assert tries[f"unit.{verb}"] == 2
    assert not drivers(site.home)
    assert [p.phase for p in passes(writer.table)][:1] == ["one"]
    assert_right(writer)


def test_a_scheduler_killed_with_all_its_tasks_goes_on_where_it_was(site):
    writer = written_while_nothing_runs(site)
    run = site.airflow.trigger("hardpack", {"tables": name_of(writer.table), "force": True})
    wait_until(lambda: drivers(site.home), 300, "a driver")
    time.sleep(6)  # into the work
    site.airflow.kill()
    wait_until(lambda: not drivers(site.home), 10, "the driver's end")
    site.airflow.start()
    states = dict(site.airflow.watch("hardpack", run, timeout=900))
    assert states[""] == "success", states
    # a try more when the executor is up before the server that its tasks report to
    assert max(t["try_number"] for t in instances(site, run)) > 1
    assert [p.phase for p in passes(writer.table)][:1] == ["one"]
    assert_right(writer)


def test_clearing_every_task_of_a_run_that_ended_changes_nothing(site):
    writer = written_while_nothing_runs(site)
    run, state, _ = site.run(name_of(writer.table), force=True)
    assert state == "success"
    snapshot = writer.table.refresh().current_snapshot().snapshot_id
    tasks = ["sense", "plan", *(f"unit.{v}" for v in VERBS), "report"]
    for chosen in (tasks[2:3], tasks[3:5], tasks):
        body = {"dry_run": False, "dag_run_id": run, "task_ids": chosen, "only_failed": False, "reset_dag_runs": True}
        site.airflow.call("POST", "dags/hardpack/clearTaskInstances", json=body)
        states = dict(site.airflow.watch("hardpack", run))
        assert states[""] == "success", states
        assert writer.table.refresh().current_snapshot().snapshot_id == snapshot
    assert_right(writer)
