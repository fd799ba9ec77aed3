"""The simulator can be believed: it repeats itself, shrinks, and finds what is planted."""

import gc
import inspect
import json
from dataclasses import asdict

import pytest
from hardpack.compaction import work
from hardpack.rules.settings import Settings, dotted

from tests.histories.engine import PATCHES, simulated
from tests.histories.generator import SETTINGS, generate
from tests.histories.mutants import MUTANTS
from tests.histories.oracle import Violation
from tests.histories.planting import Mutant, find
from tests.histories.shrink import shrink
from tests.histories.steps import Step, from_json, to_json, to_script
from tests.histories.world import World, as_said, play


def outcome(seed):
    try:
        return dict(play(generate(seed)).counts)
    except Violation as violation:
        return str(violation)


def test_a_seed_is_a_history():
    assert [asdict(s) for s in generate(7)] == [asdict(s) for s in generate(7)]
    assert [outcome(seed) for seed in range(20)] == [outcome(seed) for seed in range(20)]


def test_histories_are_long_and_differ():
    histories = [generate(seed) for seed in range(200)]
    assert sum(map(len, histories)) / 200 >= 20
    assert len({step.kind for steps in histories for step in steps}) >= 35


NOT_VARIED = {
    "a table's layout says them": [name for name in map(dotted, Settings.model_fields) if name.startswith("column.")],
    "tests/histories/test_other_tombstones.py plays it": ["tombstone"],
    "tests/equivalence/test_layouts.py has logs with empty keys": ["key.absent"],
    "a table that is written on read has its own": ["deletion.vector.min.bytes", "deletion.vector.max.ratio"],
    "they tell how fast and with how much memory a pass works, which the simulated reader does not": [
        "key.filter.min.rows", "log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
    ],
    "a real table of histories ignores the column that numbers its rows": ["duplicates.ignore"],
    "maintenance of a simulated table is a step": ["maintenance", "orphan.age.ms"],
}  # fmt: skip
"""Settings that no history draws, by the reason."""


def test_histories_draw_each_setting_unless_there_is_a_reason():
    left_out = [name for names in NOT_VARIED.values() for name in names]
    assert sorted([*SETTINGS, *left_out]) == sorted(map(dotted, Settings.model_fields))


def test_a_history_replays_from_a_file_and_from_a_script():
    steps = generate(3)
    assert from_json(to_json(steps)) == steps
    played = {"replay": None}
    code = to_script(steps).replace("from tests.histories import Step, replay", "")
    exec(code, {"Step": Step, "replay": lambda again: played.update(replay=again)})
    assert played["replay"] == steps
    json.dumps(played["replay"][0].args)


def test_a_failing_history_becomes_small():
    steps = generate(5)
    needed = [steps[3], steps[-2]]
    small = shrink(steps, lambda some: all(s.kind in {x.kind for x in some} for s in needed))
    assert sorted(s.kind for s in small) == sorted({s.kind for s in needed})


QUICK = [
    m for m in MUTANTS if m.id in ("A4 all rows taken is a new table", "C1 one bad log", "A21 a rewrite brings nothing")
]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.id)
def test_a_planted_bug_is_found(mutant):
    tried, rule = find(mutant, most=400)
    assert tried, f"400 histories do not find it by {mutant.rules}"
    assert rule in mutant.rules


def test_a_step_that_does_other_than_it_says_is_noticed():
    with pytest.raises(Violation, match="simulator"):
        as_said("binpack", {1, 2}, {1})


def test_a_row_that_the_door_loses_is_noticed():
    """The oracle needs nothing of hardpack's to see it: a row that no later row supersedes is gone."""
    rows = [["a", "value", 1, "now"], ["b", "value", 1, "now"], ["a", "value", 1, "now"]]
    with simulated():
        world = World()
        world.do(Step("create", {"t": "t.a", "settings": {"cleanup.policy": "compact"}}))
        for _ in range(2):
            world.do(Step("append", {"t": "t.a", "logs": {"0": rows}}))
        tab, file = world.lake.tabs["t.a"], world.lake.tabs["t.a"].file
        tab.file = lambda rows, *args, **more: file(rows[1:], *args, **more)
        with pytest.raises(Violation, match="I1"):
            world.do(Step("clean", {"t": "t.a"}))


def test_a_history_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with simulated():
        world = World()
        world.do(Step("create", {"t": "t.a", "settings": {"cleanup.policy": "compact"}}))
        world.do(Step("scheduled", {"t": "t.a"}))
        # which tables are adopted is noted in its home
        assert {path.name for path in tmp_path.rglob("*.json")} == {"lake.json"}
        assert list(tmp_path.iterdir()) == [world.home]
        del world
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_few_histories_break_no_promise():
    """What CI can afford; `make test-histories` and `make soak` play more."""
    for seed in range(1, 61):
        play(generate(seed))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_what_is_planted_fits_the_code(mutant):
    """A replacement that no longer takes what the real thing is given would show an error of its own."""
    find(mutant, most=1)


def test_what_no_longer_fits_is_told():
    def of_before(real):
        return lambda log, facts, seen, commit: real(log, facts, seen, commit)

    with pytest.raises(ValueError, match="does not fit the code any more"):
        find(Mutant("stale", work.LogToClean, "state_after", of_before, ("I5",)), most=10)


def test_late_rows_that_a_split_brings_to_light_pin_nothing():
    """Nobody can trust them before: to which log rows of a file of several logs belong is known once it is split."""
    rows = [["d", "value", 1, "now"], ["a", "value", 2, "now"], ["b", "value", 1, "now"], ["e", "value", 3, "now"],
            ["c", "tombstone", 1, "now"]]  # fmt: skip
    settings = {"cleanup.policy": "compact,delete"}
    play(
        [
            Step("create", {"t": "t.a", "version": 2, "settings": settings, "by_log": False}),
            Step("mixed", {"t": "t.a", "rows": rows}),
            Step("season", {"t": "t.a", "days": 30, "idle": False}),
            Step("late", {"t": "t.a", "log": 0, "rows": [[39, "d", "tombstone"]], "beside": True}),
        ]
    )


def test_trust_counts_also_while_nobody_can_look_at_the_table():
    """The oracle took late rows for untrusted where a column had been replaced when somebody trusted them."""
    settings = {"cleanup.policy": "compact", "active.segment": "none", "delete.retention.ms": "3600000"}
    play(
        [
            Step("create", {"t": "t.a", "version": 3, "settings": settings}),
            Step("append", {"t": "t.a", "logs": {"0": [["v", "tombstone", 1, "now"]]}}),
            Step("clean", {"t": "t.a", "force": False}),
            Step("advance", {"ms": 7200000}),
            Step("expire_tombstones", {"t": "t.a"}),
            Step("late", {"t": "t.a", "log": 0, "rows": [[0, "v", "value"]]}),
            Step("evolve", {"t": "t.a", "what": "replace"}),
            Step("resume", {"t": "t.a", "log": None, "trust": True}),
        ]
    )


@pytest.mark.parametrize(("owner", "name", "stand_in"), PATCHES, ids=[name for _, name, _ in PATCHES])
def test_what_stands_in_takes_arguments_by_the_same_names(owner, name, stand_in):
    real, given = (list(inspect.signature(f).parameters.values()) for f in (getattr(owner, name), stand_in))
    first = 1 if isinstance(owner, type) else 0
    named = {p.name for p in given[first:] if p.kind is p.POSITIONAL_OR_KEYWORD and not p.name.startswith("_")}
    assert named <= {p.name for p in real}
