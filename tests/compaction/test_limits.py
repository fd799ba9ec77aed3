"""Limits that a pass is held to, by measuring what its tasks did."""

import random
import time
from pathlib import Path

import pytest
from hardpack.compaction import session, staging

from tests.topics import T0, append, name_of, new_topic, row, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_workers")]


def most_at_once(times):
    marks = sorted([(start, 1) for start, _ in times] + [(end, -1) for _, end in times])
    running = [0]
    for _, step in marks:
        running.append(running[-1] + step)
    return max(running)


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_tasks_read_at_once_than_threads_are_allowed(hp, catalog, monkeypatch, tmp_path, threads):
    table = new_topic(catalog, log_cleaner_threads=threads, segment_bytes=14)
    for at in range(5):
        append(table, {p: [row(2 * at, "a"), row(2 * at + 1, f"b{at}")] for p in (0, 1)})
    notes = tmp_path / "reads"
    notes.mkdir()

    class Slow(session.DataFiles):
        def read_whole(self, file):
            start = time.time()
            time.sleep(0.3)
            yield from super().read_whole(file)
            Path(notes, file.path.rsplit("/", 1)[1]).write_text(f"{start} {time.time()}")

    monkeypatch.setattr(session, "DataFiles", Slow)
    monkeypatch.setattr("hardpack.spark.rewrite.TASK_BYTES", 1)
    hp.clean(hp.plan(name_of(table), now=T0))
    times = [tuple(map(float, note.read_text().split())) for note in notes.iterdir()]
    assert len(times) == 6
    assert most_at_once(times) == threads
    assert [r.offset for r in rows_of(table)] == [1, 3, 5, 6, 7, 8, 9]


def test_tasks_that_write_at_once_keep_to_the_rate_together(hp, catalog, monkeypatch):
    """log.cleaner.io.max.bytes.per.second of a pass, not of each of its tasks."""
    rate, rng, seconds = 200_000, random.Random(4), []
    table = new_topic(catalog, log_cleaner_io_max_bytes_per_second=rate)
    for at in range(0, 120, 30):
        # nothing compresses them
        append(
            table, {p: [row(o, f"k{o % 70}", rng.randbytes(4000).hex()) for o in range(at, at + 30)] for p in (0, 1)}
        )
    real = staging.rewrite

    def timed(*args):
        started = time.monotonic()
        made = real(*args)
        seconds.append(time.monotonic() - started)
        return made

    monkeypatch.setattr(staging, "rewrite", timed)
    monkeypatch.setattr("hardpack.spark.rewrite.TASK_BYTES", 1)
    report = hp.clean(hp.plan(name_of(table), now=T0))
    moved = sum(log.bytes_read + log.bytes_written for log in report.logs)
    assert moved > 1.5 * rate
    assert seconds[0] > 0.9 * moved / rate
