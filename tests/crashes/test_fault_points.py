"""Passes that end at named points, each tried again: nothing is lost, doubled, resurrected or changed.

Invariants 1 to 6. The process is taken to end (`stop`: no code of ours runs after it), an error is raised (`fail`), or
the connection is lost (`lose`), at the swap of the metadata among others, so that the outcome is unknown.
"""

import os
import random
from collections import Counter, defaultdict

import pytest
from hardpack import faults
from hardpack.errors import HardpackError
from hardpack.faults import POINTS, Fault, Stopped

from tests.crashes.history import SHAPES, History

RUNS = int(os.environ.get("HARDPACK_CRASHES", "1000"))
SEED = int(os.environ.get("HARDPACK_RANDOM_SEED", "1"))
ROUNDS = 20
"""Runs of one table; the next gets a new one."""
WAYS = ("stop", "fail", "lose")


@pytest.fixture(autouse=True)
def disarmed():
    yield
    faults.arm(None)


def broken(verb, fault):
    """Whether the accident happened, and whether it ended the pass; it must end as a process does that meets it."""
    faults.arm(fault)
    try:
        verb()
    except (Stopped, HardpackError):
        return True, True
    except Exception as error:
        if fault.point not in str(error):
            raise
        return True, True
    else:
        return faults.armed() is None, False
    finally:
        faults.arm(None)


def one_run(hp, history, fault, phase, told):
    """A pass with an accident in one phase, then the same pass again; gives what differs from the reference."""
    history.grow()
    plan = history.plan(hp)
    before, marks = history.rows(), history.checkpoints()
    if phase == "two":
        hp.clean(plan)
        before = history.rows()
    verb = (lambda: hp.clean(plan)) if phase == "one" else (lambda: hp.expire_after(plan))
    reached, ended = broken(verb, fault)
    between = history.rows()
    told["reached"] += reached
    told["ended"] += ended
    told["published"] += reached and between != before
    hp.clean_or_replan(plan)
    cleaned = history.rows()
    hp.expire_after(plan)
    history.clean_on_paper()
    after = history.checkpoints()
    wrong = history.differences()
    wrong += [f"{history.name}/{p} went back" for p in marks if after[p] < marks[p]]
    left = cleaned if phase == "one" else history.rows()
    if between not in (before, left) and not (history.in_portions and lies_between(left, between, before)):
        wrong.append(f"{history.name} was half published")
    return wrong


def lies_between(fewer, some, more):
    """Whether rows are gone that have to go, and no others."""
    return all(set(fewer[p]) <= set(some[p]) <= set(more[p]) for p in some)


def crash(hp, catalog, runs, seed, among=POINTS):
    """Runs until so many met their accident at some of the points; what differed, and by point what happened."""
    rng = random.Random(seed)
    told, wrong, orphans = defaultdict(Counter), [], Counter()
    history, done = None, 0
    while sum(seen["reached"] for seen in told.values()) < runs:
        if done % ROUNDS == 0:
            if history is not None:
                orphans.update(left_behind(hp, history))
            history = History(catalog, rng, *SHAPES[done // ROUNDS % len(SHAPES)])
        points = [p for p in among if history.vectors or p != "vectors written"]
        scarce = sorted(points, key=lambda p: told[p]["reached"])[: -(-len(points) // 3)]
        point = rng.choice(scarce)
        fault = Fault(point, rng.choice(WAYS), rng.randrange(4) if history.in_portions else 0)
        wrong += one_run(hp, history, fault, rng.choice(("one", "one", "two")), told[point])
        told[point]["runs"] += 1
        done += 1
    orphans.update(left_behind(hp, history))
    return wrong, told, orphans


def left_behind(hp, history):
    """Orphans by kind: staged files of ours, and whatever else there should not be; maintenance then takes them all."""
    found = Counter("staged" if path.name.startswith("hardpack-") else str(path) for path in history.orphans())
    before = history.rows()
    for path in history.files():
        # Iceberg takes nothing for an orphan that is younger than a day
        os.utime(path, (1, 1))
    hp.maintain(history.name)
    assert history.orphans() == []
    assert history.rows() == before
    return found


def report(told, orphans):
    """The table by fault point."""
    columns = ("runs", "reached", "ended", "published")
    lines = [f"{'point':<18}" + "".join(f"{c:>11}" for c in columns)]
    for point in POINTS:
        lines.append(f"{point:<18}" + "".join(f"{told[point][c]:>11}" for c in columns))
    return "\n".join([*lines, f"staged files left behind: {orphans['staged']}"])


@pytest.mark.crashes
@pytest.mark.timeout(4 * 3600)
def test_runs_that_end_at_random_points(hp, catalog, capsys):
    wrong, told, orphans = crash(hp, catalog, RUNS, SEED)
    with capsys.disabled():
        print("\n" + report(told, orphans))
    assert wrong == []
    assert set(orphans) <= {"staged"}
    assert min(told[point]["reached"] for point in POINTS) > RUNS / 50


@pytest.mark.spark
def test_runs_that_end_around_the_swap(hp, catalog):
    around = ("gate passed", "before swap", "after swap")
    wrong, told, orphans = crash(hp, catalog, len(around), 7, around)
    assert wrong == []
    assert set(orphans) <= {"staged"}
    assert [told[point]["reached"] for point in around] == [1, 1, 1]


@pytest.mark.parametrize("text", ["", "rewritten", "rewritten=explode", "nowhere=kill"])
def test_a_fault_nobody_knows_is_refused(text):
    with pytest.raises(ValueError, match="names no point and action"):
        Fault.parse(text)


def test_nothing_is_armed_unless_somebody_arms_it():
    assert faults.armed() is None
    for point in POINTS:
        faults.reach(point)
