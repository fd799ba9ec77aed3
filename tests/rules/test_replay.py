"""A replay with other settings tells what cleaning key by key would have done, from what passes left alone."""

import random
from dataclasses import replace

import pytest
from hardpack.rules.model import DataFile, LogState, LogView, to_segments
from hardpack.rules.selection import decide
from hardpack.rules.settings import Settings
from hardpack.rules.what_if import MANY, Arrival, KeyModel, LogHistory, Measured, distinct, keys_behind, replay
from hypothesis import given
from hypothesis import strategies as st

HOUR = 3_600_000
T0 = 1_700_002_800_000
ROWS, ROW_BYTES = 400, 100
SPAN = 96 * HOUR // 2


def file(at, now, rows=ROWS):
    return DataFile(f"f{at}", rows * ROW_BYTES, rows, at * ROWS, at * ROWS + rows - 1, now, now, 0, 0)


def settings(ratio, **others):
    return Settings(min_cleanable_dirty_ratio=ratio, **others)


def keys_of(kind, seed, at):
    rng = random.Random(seed * 10_000 + at)
    if kind == "alike":
        return [rng.randrange(5000) for _ in range(ROWS)]
    if kind == "few":
        return [rng.randrange(50) for _ in range(ROWS)]
    if kind == "newest":
        return [at * ROWS // 2 + rng.randrange(-ROWS, ROWS // 2) for _ in range(ROWS)]
    return [int(rng.paretovariate(0.6)) % 100_000 for _ in range(ROWS)]


class Truth:
    """One log, cleaned key by key whenever the rules say so."""

    def __init__(self, kind, ratio, appends=96, seed=1, **others):
        self.kind, self.seed, self.settings = kind, seed, settings(ratio, **others)
        self.dirty, self.clean, self.keys_clean, self.seen, self.arrivals = [], None, set(), set(), []
        self.passes, self.written, self.dead, self.scanned, self.worst = [], 0, 0.0, 0.0, 0
        for at in range(appends):
            now = T0 + at * HOUR // 2
            self._append(at, now)
            if now % HOUR == 0:
                self._look(now)
            self._scan(HOUR // 2)
        self._look(T0 + appends * HOUR // 2)

    def _append(self, at, now):
        self.dirty.append(file(at, now))
        self.arrivals.append(Arrival(now, self.dirty[-1]))
        self.seen.update(keys_of(self.kind, self.seed, at))

    def _look(self, now):
        clean = to_segments([self.clean]) if self.clean else ()
        checkpoint = self.clean.max_offset + 1 if self.clean else None
        d = decide(LogView(0, clean + to_segments(self.dirty), LogState(checkpoint)), self.settings, now)
        head = [f for f in self.dirty if f.max_offset < d.bound]
        if head:
            self.worst = max(self.worst, now - head[0].min_timestamp)
        if not d.due:
            return
        met = set().union(*(keys_of(self.kind, self.seed, f.min_offset // ROWS) for f in head))
        tail_rows, tail = len(self.keys_clean), self.keys_clean
        self.keys_clean = tail | met
        left, hit = len(self.keys_clean), bool(tail & met)
        size = left * ROW_BYTES
        self.passes.append(
            Measured(tail_rows, len(head) * ROWS, left, tail_rows * ROW_BYTES, len(head) * ROWS * ROW_BYTES,
                     tail_rows * ROW_BYTES * hit, len(head) * ROWS * ROW_BYTES, left, size)
        )  # fmt: skip
        self.written += size
        self.clean = replace(head[-1], bytes=size, rows=left, min_offset=0, max_offset=d.bound - 1)
        self.dirty = [f for f in self.dirty if f.max_offset >= d.bound]

    def _scan(self, ms):
        rows = sum(f.rows for f in self.dirty) + len(self.keys_clean)
        self.dead += (rows - len(self.seen)) * ms
        self.scanned += rows * ms

    @property
    def history(self):
        return LogHistory(0, tuple(self.arrivals), None, tuple(self.passes))


@pytest.mark.parametrize("kind", ["alike", "few", "newest", "pareto"])
@pytest.mark.parametrize("lived_at", [0.5, 0.3])
def test_a_replay_tells_what_cleaning_key_by_key_would_have_done(kind, lived_at):
    history = Truth(kind, lived_at).history
    for ratio in (0.15, 0.3, 0.5, 0.7):
        told, real = replay([history], settings(ratio), HOUR, T0 + SPAN), Truth(kind, ratio)
        assert told.passes == pytest.approx(len(real.passes), rel=0.15, abs=1)
        assert told.bytes_written == pytest.approx(real.written, rel=0.15)
        assert told.worst_lag_ms == pytest.approx(real.worst, rel=0.15, abs=HOUR)
        assert told.dead_share == pytest.approx(real.dead / real.scanned, rel=0.15)
        assert told.bytes_appended == 96 * ROWS * ROW_BYTES


def test_with_the_setting_in_force_a_replay_is_what_was():
    real = Truth("alike", 0.4)
    told = replay([real.history], settings(0.4), HOUR, T0 + SPAN)
    assert (told.passes, told.worst_lag_ms) == (len(real.passes), real.worst)
    assert told.bytes_written == pytest.approx(real.written, rel=0.001)
    assert told.days == 2


def test_a_lag_is_tried_too():
    history = Truth("alike", 0.5).history
    by_lag = [replay([history], settings(1, max_compaction_lag_ms=n * HOUR), HOUR, T0 + SPAN) for n in (4, 8, 1000)]
    assert [found.passes for found in by_lag[:2]] == [
        len(Truth("alike", 1, max_compaction_lag_ms=n * HOUR).passes) for n in (4, 8)
    ]
    # the first pass is due whatever the ratio is below 1, as nothing is clean yet; at 1 none is
    assert by_lag[2].passes == by_lag[2].bytes_written == 0
    late = replay([history], settings(0.5, min_compaction_lag_ms=10 * HOUR), HOUR, T0 + SPAN)
    assert late.passes == len(Truth("alike", 0.5, min_compaction_lag_ms=10 * HOUR).passes)


def test_a_history_that_begins_with_clean_rows_goes_on_from_there():
    whole = Truth("alike", 0.5)
    first = whole.passes[0]
    clean = replace(file(0, T0), bytes=first.bytes_written, rows=first.left_rows, max_offset=first.head_rows - 1)
    begun = [a for a in whole.arrivals if a.file.min_offset >= first.head_rows]
    rest = LogHistory(0, tuple(begun), clean, tuple(whole.passes[1:]))
    told = replay([rest], settings(0.5), HOUR, T0 + SPAN)
    assert told.passes == len(whole.passes) - 1
    assert told.bytes_written == pytest.approx(sum(p.bytes_written for p in whole.passes[1:]), rel=0.01)


def test_a_log_without_a_pass_counts_as_alive():
    history = replace(Truth("few", 0.5).history, passes=())
    told = replay([history], settings(0.5), HOUR, T0 + SPAN)
    assert told.dead_share == pytest.approx(0, abs=1e-9)
    assert told.passes > 0


def test_passes_of_two_logs_at_one_look_are_one_commit():
    one, other = Truth("alike", 0.5).history, Truth("alike", 0.5, seed=2).history
    alone = replay([one], settings(0.5), HOUR, T0 + SPAN)
    both = replay([one, replace(other, partition=1)], settings(0.5), HOUR, T0 + SPAN)
    assert alone.passes <= both.passes <= alone.passes + 1
    assert both.logs_cleaned == pytest.approx(2 * alone.logs_cleaned, abs=1)
    assert alone.logs_cleaned == alone.passes
    assert both.bytes_written == pytest.approx(2 * alone.bytes_written, rel=0.02)
    assert both.dead_share == pytest.approx(alone.dead_share, rel=0.02)


def test_nothing_that_came_is_no_pass():
    told = replay([LogHistory(0, (), None, ())], settings(0.5), HOUR, T0)
    assert (told.passes, told.passes_per_day, told.written_per_appended, told.dead_share) == (0, 0, 0, 0)


def test_what_phase_two_takes_is_no_longer_alive():
    first = Measured(0, 100, 60, 0, 1000, 0, 1000, 60, 600, expired_rows=20)
    then = Measured(40, 100, 90, 400, 1000, 400, 1000, 90, 900)
    arrivals = tuple(
        Arrival(T0, replace(file(n, T0, 100), min_offset=100 * n, max_offset=100 * n + 99)) for n in (0, 1)
    )
    model = KeyModel(LogHistory(0, arrivals, None, (first, then)))
    assert model.living(100) == 40
    assert model.living(200) == pytest.approx(90)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.floats(0, 1))
def test_the_keys_behind_a_pass_explain_what_it_left(tail, head, share):
    left = tail + round(share * head)
    keys = keys_behind(tail, head, left)
    assert max(tail, 1) <= keys <= MANY
    assert distinct(tail, keys, head) == pytest.approx(left, rel=1e-3, abs=1)


def shared_border(history):
    """A history whose files each begin with the offset that the one before ended with."""

    def at(file):
        return replace(file, min_offset=max(0, file.min_offset - 1))

    return replace(history, arrivals=tuple(Arrival(a.at, at(a.file)) for a in history.arrivals))


def test_files_that_share_the_offset_at_their_border_count_as_others():
    history = Truth("alike", 0.5).history
    assert replay([shared_border(history)], settings(0.5), HOUR, T0 + SPAN) == replay(
        [history], settings(0.5), HOUR, T0 + SPAN
    )


def test_rows_without_a_time_wait_since_their_commit():
    arrivals = tuple(
        Arrival(T0 + at * HOUR, replace(file(at, None), min_timestamp=-1, max_timestamp=-1, modified=T0 + at * HOUR))
        for at in range(4)
    )
    told = replay([LogHistory(0, arrivals, None, ())], settings(1), HOUR, T0 + 4 * HOUR)
    assert told.worst_lag_ms == 4 * HOUR


def test_what_waits_at_the_beginning_is_cleaned_and_not_counted_as_appended():
    whole = Truth("alike", 0.5)
    early, late = whole.arrivals[:3], whole.arrivals[3:]
    rest = LogHistory(0, tuple(late), None, tuple(whole.passes), tuple(a.file for a in early))
    told = replay([rest], settings(0.5), HOUR, T0 + SPAN)
    assert told.bytes_appended == len(late) * ROWS * ROW_BYTES
    assert told.passes == pytest.approx(len(whole.passes), abs=1)
