"""Planted bugs: what each changes in hardpack at run time, and after how many histories the simulator finds it.

A row of the table is an id, the owner and name of what is replaced, a function that makes the replacement from the real
one, and the rule that should find it. `python -m tests.histories.mutants [ID …]` runs them all, or some.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hardpack import api
from hardpack.compaction import choice, gate_read, phase_one, phase_two, planning, publish, verify, verify_sample, work
from hardpack.compaction import split as splitting
from hardpack.errors import BadInput
from hardpack.operations import maintenance, pause
from hardpack.rules import late_rows, model, selection
from hardpack.table import history, layout, state
from hardpack.table import log_views as sensing
from hardpack.table.history import ancestors, is_append, is_hardpacks, is_split, summary_of, trusted_states
from hardpack.table.lineage import SEEN, Lineage
from hardpack.table.manifest_cache import ManifestCache
from hardpack.table.snapshot_change import Change

from tests.histories.planting import MOST, Mutant, find


def _never_unseen(real: Any) -> Any:
    """Rows that were put below the checkpoint are not looked for."""
    return lambda *_, **__: SEEN


def _nothing_replaced(real: Any) -> Any:
    """Who goes back to before all rows were replaced meets what is known of the new ones."""
    return lambda undone, is_undone: real(replace(undone, replaced=()), is_undone)


def _also_half(real: Any) -> Any:
    """What a look had come to when it failed counts as told."""

    @contextlib.contextmanager
    def lend(cache: Any, table: Any, reader: Any) -> Iterator[Any]:
        with real(cache, table, reader) as known:
            try:
                yield known
            finally:
                cache._tables[str(table.metadata.table_uuid)] = known

    return lend


def _by_data_sequence(real: Any) -> Any:
    """A rewrite of others is held to bring nothing, whatever went into it."""

    def origin(self: Any, log: Any, file: Any, state: Any) -> Any:
        found = self.commits.get(file.file_sequence_number)
        ours = found is None or is_append(found) or is_hardpacks(found)
        return real(self, log, file, state) if ours else SEEN

    return origin


def _start_recorded(real: Any) -> Any:
    """A first pass sets where the log starts, for ever."""

    def state_after(log: Any, *rest: Any) -> Any:
        return replace(real(log, *rest), log_start=log.view.log_start)

    return state_after


def _start_stays(real: Any) -> Any:
    """Rows that are put before it do not make a log start smaller."""
    return property(lambda self: real.fget(replace(self, unseen_from=None)))


def _all_removed_is_anew(real: Any) -> Any:
    """A commit of others that removes as many rows as there were counts as a replaced table."""

    def view(partition: Any, files: Any, state: Any, lineage: Any, before: Any, waits: bool) -> Any:
        others = [s for s in lineage.commits.values() if not is_hardpacks(s) and state.snapshot]
        for snapshot in (s for s in others if s.sequence_number > state.snapshot[1]):
            gone = int(summary_of(snapshot).get("deleted-records", 0))
            if 0 < gone >= int(summary_of(snapshot).get("total-records", 0)):
                return real(partition, files, sensing.started_anew(state, lineage.newest), lineage, None, waits)
        return real(partition, files, state, lineage, before, waits)

    return view


def _any_base(real: Any) -> Any:
    """A commit is not tied to the snapshot that its pass was made from."""

    class Everything:
        def __contains__(self, _: object) -> bool:
            return True

    return lambda ledger, standing, fields: real(ledger, replace(standing, ancestors=Everything()), fields)


def _always(answer: Any) -> Any:
    """Whatever is asked, this is the answer."""
    return lambda _: lambda *_: answer


def _none_under_a_pause(real: Any) -> Any:
    """A pause hides what else keeps a log from being cleaned."""
    return lambda log: "" if log.state.paused else real(log)


def _of_the_plan(real: Any) -> Any:
    """Delete horizons count from the plan's time."""
    return lambda log, facts, base, seen, _: real(log, facts, base, seen, log.now)


def _neighbours_too(real: Any) -> Any:
    """A late row gives every tombstone behind it a new horizon."""

    def after_clean(state: Any, copied: Any, *rest: Any, **named: Any) -> Any:
        if copied.first_dirty < (state.checkpoint or 0):
            kept = tuple(h for h in state.horizons if h[0] < copied.first_dirty)
            state = replace(state, horizons=kept)
        return real(state, copied, *rest, **named)

    return after_clean


def _v1(real: Any) -> Any:
    """Tables of format v1 are taken."""
    return lambda _: None


def _blames(real: Any) -> Any:
    """Rows that came since are held for a broken guarantee."""
    return lambda *_: [SimpleNamespace(success=False, page="")]


def _overflows(real: Any) -> Any:
    return lambda ms, span: ms + span


def _pinned_by_all(real: Any) -> Any:
    """Snapshots of others since any log's last pass stay, however long that is ago."""

    def before(table: Any, now: int) -> int:
        passes = [s.snapshot[1] for s in trusted_states(table).values() if s.snapshot]
        others = [s.timestamp_ms for s in ancestors(table) if passes and (s.sequence_number or 0) > min(passes)
                  and not is_append(s) and not is_hardpacks(s)]  # fmt: skip
        return min([real(table, now), *others])

    return before


def _any_time(real: Any) -> Any:
    return lambda now, at: now


def _chained(real: Any) -> Any:
    """Files that share no more than a border are one segment."""

    def segments(files: Any, *rest: Any) -> Any:
        tied: list[Any] = []
        for segment in real(files, *rest):
            if tied and segment.base_offset <= tied[-1].last_offset:
                tied[-1] = model.Segment.of((*tied[-1].files, *segment.files), tied[-1].base_offset)
            else:
                tied.append(segment)
        return tuple(tied)

    return segments


def _both_sums(real: Any) -> Any:
    def around(log: Any, dirty: int, end: int) -> tuple[int, int]:
        clean = sum(s.bytes for s in log.segments if s.base_offset < dirty)
        head = selection.from_offset(log.segments, dirty) if dirty < end else ()
        return clean, sum(s.bytes for s in head if s.base_offset < end)

    return around


def _whole_table(real: Any) -> Any:
    """One bad log stops the others."""

    def stop(session: Any, logs: Any, reason: str) -> None:
        raise BadInput(f"{logs}: {reason}")

    return stop


def _due_at_once(real: Any) -> Any:
    def after_clean(*args: Any, **named: Any) -> Any:
        state = real(*args, **named)
        return replace(state, horizons=tuple((up_to, ms - 3_600_000) for up_to, ms in state.horizons))

    return after_clean


def _none_is_gone(real: Any) -> Any:
    return lambda rows, size, dead, gone, settings: real(rows, size, dead, False, settings)


def _serves_all(real: Any) -> Any:
    def due(log: Any, now: int) -> Any:
        ranges, markers = real(log, now)
        return (((0, log.state.checkpoint - 1),) if ranges and log.state.checkpoint else ranges), markers

    return due


def _splits_too(real: Any) -> Any:
    """A split counts as a pass, which has seen the rows that it wrote."""

    def origin(self: Any, log: Any, file: Any, state: Any) -> Any:
        made_by = self.commits.get(file.file_sequence_number)
        return SEEN if made_by and is_split(made_by) else real(self, log, file, state)

    return origin


def _no_split(real: Any) -> Any:
    """Files of several logs are passed over."""
    return lambda *args, **named: replace(real(*args, **named), mixed=[])


def _none_wait(real: Any) -> Any:
    """Rows that wait in files of several logs are forgotten."""
    return lambda *seen: real(*seen[:-1], ())


def _whatever_stands(real: Any) -> Any:
    """A log counts as read by a gate whatever its files are now."""
    return lambda _, entry: bool(entry.gate_read)


def _no_deletes(real: Any) -> Any:
    """Rows that others hide in files which a gate has read are not looked for."""
    return lambda files, entry: real([replace(file, row_deletes=False) for file in files], entry)


def _newest_alone(real: Any) -> Any:
    """The check of a run compares the files of each log's newest pass alone, not those of the pass before it."""
    return lambda table, settings, passes: real(table, settings, {name: own[:1] for name, own in passes.items()})


def _nothing_came(real: Any) -> Any:
    """What others appended while a pass ran is not looked for afterwards."""
    return lambda looks, log, one, after: real(looks, log, replace(one, parent=one.base), after)


def _never_grows(real: Any) -> Any:
    """Files of old rows and some new ones are held to be another topic's."""
    return property(lambda _: False)


def _all_between(real: Any) -> Any:
    """What came between the portions of a pass counts as seen."""
    return lambda seen, sequence: real(seen, sequence) or (bool(seen.further) and sequence <= seen.made)


def _as_seen(real: Any) -> Any:
    """No commit of others is recorded as having brought only seen rows."""
    return lambda view: view.state.seen


def _no_rollback(real: Any) -> Any:
    """Nobody asks whether the portions of a pass are still in the table's past."""
    return lambda ledger, *at: real(replace(ledger, earlier=()), *at)


MUTANTS = [
    Mutant(
        "A3 log start of the first pass",
        work.LogToClean,
        "state_after",
        _start_recorded,
        ("retention", "I9", "pinned"),
        ((model.LogView, "log_start", _start_stays),),
    ),
    Mutant("A4 all rows taken is a new table", sensing, "_view", _all_removed_is_anew, ("state-survives", "I6")),
    Mutant("A5 any base", publish, "_next_state", _any_base, ("base-lost",)),
    Mutant("A7 nothing is left alone", phase_two, "why_left_alone", _always(""), ("paused", "policy")),
    Mutant("A9 format v1", layout, "_check_format", _v1, ("v1",)),
    Mutant("A10 horizons from the plan", work.LogToClean, "state_after", _of_the_plan, ("horizon-early", "I5")),
    Mutant("A11 late rows date neighbours", work, "after_clean", _neighbours_too, ("horizon-once",)),
    Mutant("A18 late rows are never told", Lineage, "origin", _never_unseen, ("I9", "I9-risen", "state-survives")),
    Mutant(
        "A19 an undone pass is believed",
        history._Past,
        "left_by_newest",
        _always(True),
        ("I6", "I9", "state-survives"),
        ((history._Past, "lacks", _always(False)),),
    ),
    Mutant("A20 verify blames for what came", verify, "_by_themselves", _blames, ("verify",)),
    Mutant("A21 a rewrite brings nothing", Lineage, "origin", _by_data_sequence, ("I9", "I9-risen")),
    Mutant("B1 times overflow", work, "horizon_from", _overflows, ("state", "errors", "isolation")),
    Mutant("B2 expiry is pinned", maintenance, "expire_before", _pinned_by_all, ("snapshots", "storage")),
    Mutant("B4 a clock ahead", api, "not_ahead", _any_time, ("ahead",)),
    Mutant(
        "B5 chained files", sensing, "to_segments", _chained, ("pinned",), ((selection, "_why_stuck", _always("")),)
    ),
    Mutant("B7 both sums", selection, "_bytes_around", _both_sums, ("ratio",)),
    Mutant("C1 one bad log", phase_one, "mark_uncleanable", _whole_table, ("isolation",)),
    Mutant("a horizon is an hour early", work, "after_clean", _due_at_once, ("horizon-early", "I5")),
    Mutant("a split counts as a pass", Lineage, "origin", _splits_too, ("I9", "I9-risen")),
    Mutant("nobody splits", splitting, "table_logs", _no_split, ("pinned",), ((planning, "table_logs", _no_split),)),
    Mutant("rows that wait are forgotten", sensing, "_view", _none_wait, ("state-survives", "I6", "I9-risen")),
    Mutant("what came late counts as settled", verify_sample.Settled, "_knew", _always(True), ("errors",)),
    Mutant("any files are as read", gate_read, "holds_what_was_read", _whatever_stands, ("verify",)),
    Mutant("hidden rows are as read", gate_read, "holds_what_was_read", _no_deletes, ("verify",)),
    Mutant("the newest gate read all", verify, "stand_as_read", _newest_alone, ("verify",)),
    Mutant("nothing came during a pass", gate_read, "_stands", _nothing_came, ("verify",)),
    Mutant("readers are forgotten", model.SlowestReader, "keeps", _always(False), ("reader",)),
    Mutant("a MERGE that adds rows makes a new topic", Change, "grows", _never_grows, ("I6", "state-survives")),
    Mutant("portions are never rolled back", publish, "_standing", _no_rollback, ("I1",)),
    Mutant("what comes between portions is seen", model.SeenCommits, "holds", _all_between, ("I9", "I9-risen")),
    Mutant(
        "the trust of one is of all",
        pause,
        "waits_for_trust",
        _always(True),
        ("I9", "I9-risen"),
        ((pause, "are_behind_tombstones", _always(True)),),
    ),
    Mutant("a topic made anew goes on as the old one", late_rows, "_begins_anew", _always(None), ("remade",)),
    Mutant("a deleted key is merely hidden", choice, "stays_under_vector", _none_is_gone, ("I5",)),
    Mutant("late rows leave with what hid them", Lineage, "_left_behind", _always(None), ("I9", "I9-risen")),
    Mutant("a night makes packed rows late", state, "_with_rewrites", _as_seen, ("late-for-nothing",)),
    Mutant("half a look is remembered", ManifestCache, "lend", _also_half, ("memory",)),
    Mutant("rows that were replaced are forgotten", history, "untold", _nothing_replaced, ("I9", "I9-risen")),
    Mutant("a pause hides a mark", selection, "_why_broken", _none_under_a_pause, ("held",)),
    Mutant("one due tombstone takes all with it", phase_two, "removable", _serves_all, ("I5",)),
]
"""All that is planted. A replacement goes where the function is looked up, not where it is defined."""


def main(wanted: list[str]) -> int:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    survived = 0
    for mutant in MUTANTS:
        if wanted and mutant.id not in wanted:
            continue
        started = time.monotonic()
        tried, rule = find(mutant)
        survived += not tried
        outcome = f"found by {rule} after {tried} histories" if tried else f"survives {MOST} histories"
        print(f"{mutant.id}: {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
