"""What is told of single rows is what the reference cleaner does to them."""

from collections import defaultdict
from dataclasses import replace

from hardpack.rules import row_verdicts as fate
from hardpack.rules.model import LogState
from hardpack.rules.reference.cleaner import clean, retain, view_of
from hardpack.rules.reference.transactions import aborted_offsets
from hardpack.rules.row_verdicts import ExplainedRow, row_verdicts
from hardpack.rules.settings import Settings
from hypothesis import given, settings

from tests.equivalence.histories import breaks, histories
from tests.equivalence.test_reference import step_of
from tests.rules.test_selection import data_file, view


def told(log, rules, now):
    """What is said of every keyed row, by offset."""
    known = view_of(log)
    horizons = tuple(sorted(log.horizons.items()))
    known = replace(known, state=replace(known.state, horizons=horizons))
    aborted = aborted_offsets(log.rows)
    by_key = defaultdict(list)
    for row in log.rows:
        if row.key is not None and row.control is None:
            by_key[row.key].append(ExplainedRow(row.offset, row.value is None, row.offset in aborted))
    return {
        row.offset: found
        for rows in by_key.values()
        for row, found in zip(rows, row_verdicts(rows, known, rules, now), strict=True)
    }


def agree(case):
    log = case.log
    for step in case.steps:
        before = log
        log, _ = step_of(log, step)
        if step.do != "clean":
            continue
        out = clean(before, step.settings, step.now)
        if out.decision.due and out.log.checkpoint != out.decision.bound:
            # the offset map was full, which is not known before
            continue
        keyless = {r.offset for r in before.rows if r.key is None}
        gone = frozenset().union(*out.dropped.values()) - keyless
        found = told(before, step.settings, step.now)
        # a table has no high watermark, and its retention does not wait for transactions
        retired, _ = retain(replace(before, high_watermark=None), step.settings, step.now)
        gone |= {r.offset for r in before.rows} - {r.offset for r in retired.rows}
        assert {o: one for o, one in found.items() if (one.becomes == "goes") != (o in gone)} == {}
        last = {o for o, one in found.items() if one.reason == "the last row of its key"}
        assert last <= {r.offset for r in out.log.rows if r.value is not None}


@given(histories())
@settings(max_examples=300, deadline=None)
def test_what_goes_is_what_the_reference_cleaner_drops(case):
    agree(case)


def test_the_property_catches_a_horizon_that_is_not_looked_at(monkeypatch):
    """A planted bug: every tombstone with a horizon may go."""
    monkeypatch.setattr(fate, "due_ranges", lambda *_: ((0, 2**62),))
    monkeypatch.setattr(fate, "horizon_of", lambda *_: 0)
    assert breaks(agree)


THREE = (data_file(0, 9), data_file(10, 19), data_file(20, 29))


def one(row, log, now=10_000, also=(), **rules):
    return row_verdicts([row, *also], log, Settings.model_validate(rules), now)[0]


def test_a_row_behind_which_only_the_active_segment_has_its_key_waits():
    found = one(ExplainedRow(5), view(*THREE), also=[ExplainedRow(25)])
    assert (found.becomes, found.not_before) == ("waits", None)
    assert found.reason == "offset 25 supersedes it; no pass may go that far yet (active segment)"


def test_what_keeps_a_log_from_being_cleaned_is_told():
    log = view(*THREE, checkpoint=10, log_end=30)
    found = one(ExplainedRow(5), log, also=[ExplainedRow(12)])
    assert found.becomes == "waits"
    assert found.reason == "offset 12 supersedes it; no phase one is due: dirty ratio 0.500 is not above 0.5"
    assert one(ExplainedRow(5), log, also=[ExplainedRow(12)], **{"min.cleanable.dirty.ratio": 0}).becomes == "goes"


def test_a_tombstone_tells_its_horizon():
    log = view(*THREE, checkpoint=20, log_end=30, horizons=((19, 11_000),))
    tombstone = ExplainedRow(5, tombstone=True)
    assert (one(tombstone, log).becomes, one(tombstone, log).not_before) == ("waits", 11_000)
    idle = one(tombstone, log, now=11_000)
    assert (idle.becomes, idle.reason.rpartition("; ")[2]) == (
        "waits",
        "phase two follows the next phase one (idle.tombstones=keep)",
    )
    assert one(tombstone, log, now=11_000, **{"idle.tombstones": "expire"}).becomes == "goes"


def test_a_tombstone_goes_by_its_horizon_whatever_lies_where_no_pass_may_go():
    log = view(*THREE, checkpoint=20, log_end=30, horizons=((19, 1),))
    found = one(ExplainedRow(15, tombstone=True), log, also=[ExplainedRow(25)], **{"idle.tombstones": "expire"})
    assert found.becomes == "goes"


def test_a_tombstone_waits_while_rows_came_late():
    log = replace(view(*THREE, checkpoint=20, log_end=30, horizons=((19, 1),)), unseen_from=3)
    found = one(ExplainedRow(15, tombstone=True), log, **{"idle.tombstones": "expire"})
    assert (found.becomes, "came late" in found.reason) == ("waits", True)


def test_two_rows_of_a_key_in_the_clean_part_are_no_pass_s_to_mend():
    found = one(ExplainedRow(5), view(*THREE, checkpoint=20, log_end=30), also=[ExplainedRow(15)])
    assert (found.becomes, "hardpack verify" in found.reason) == ("stays", True)


def test_rows_that_retention_takes_are_no_passs():
    log = view(data_file(0, 9, early=1000), data_file(10, 19, early=9_000_000))
    rules = {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    gone = one(ExplainedRow(3), log, now=9_000_500, **rules)
    assert (gone.becomes, gone.reason.rpartition("; ")[2]) == ("goes", "the next retention deletes it")
    assert one(ExplainedRow(13), log, now=9_000_500, **rules).becomes == "stays"
    paused = replace(log, state=replace(log.state, paused=1))
    assert one(ExplainedRow(3), paused, now=9_000_500, **rules).becomes != "goes"
    inside = replace(log, state=replace(log.state, log_start=5))
    assert one(ExplainedRow(3), inside, now=1000, **rules).becomes == "stays", "its segment has living rows"
    alone = one(ExplainedRow(13), log, now=9_000_500, also=[ExplainedRow(14)], **{"cleanup.policy": "delete"})
    assert (alone.becomes, alone.reason) == (
        "stays",
        "cleanup.policy is delete, so that it goes with its segment by retention alone",
    )


def test_aborted_and_repeated_rows_supersede_nothing():
    rows = [
        ExplainedRow(5),
        ExplainedRow(12, aborted=True),
        ExplainedRow(13, repeated=True),
        ExplainedRow(25, aborted=True),
    ]
    found = row_verdicts(rows, view(*THREE), Settings.model_validate({"min.cleanable.dirty.ratio": 0}), 10_000)
    assert [f.becomes for f in found] == ["stays", "goes", "goes", "waits"]


def test_a_log_without_state_is_told_of_too():
    assert one(ExplainedRow(5, tombstone=True), replace(view(*THREE), state=LogState())).becomes == "waits"
