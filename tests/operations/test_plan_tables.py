"""A cache says of every table what a fresh plan says, and opens only tables that changed or whose time has come."""

import random

import pytest
from hardpack import Hardpack
from hardpack.errors import Unreadable
from hardpack.operations.known_tables import adopted_tables
from hardpack.operations.plan_tables import Look, NotAdopted, PlanCache
from hardpack.rules.model import LastClean, LogState
from hardpack.table.state import STATE_PROPERTY, write_state

from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def opened(monkeypatch):
    """Names of the tables that are opened."""
    import hardpack.operations.plan_tables as module

    found, real = [], module.open_table
    monkeypatch.setattr(module, "open_table", lambda catalog, name: (found.append(name), real(catalog, name))[1])
    return found


def test_a_table_that_did_not_change_is_not_opened(catalog, opened):
    one, two, cache = new_topic(catalog), new_topic(catalog), PlanCache()
    for table in (one, two):
        append(table, {0: [row(0, "a")]})
    hp, names = Hardpack(catalog, memory=cache.memory), [name_of(one), name_of(two)]

    def look(now):
        opened.clear()
        return {name: plan.now for name, plan in cache.plans(hp, Look(names, now))}

    assert look(T0) == dict.fromkeys(names, T0)
    assert sorted(opened) == sorted(names)
    assert look(T0 + 5) == dict.fromkeys(names, T0 + 5)
    assert opened == []
    append(two, {0: [row(1, "a")]})
    look(T0 + 6)
    assert opened == [name_of(two)]
    # a look at an earlier time is not answered from a later one
    look(T0 - 1)
    assert sorted(opened) == sorted(names)


def test_a_table_that_is_none_of_ours_is_opened_once(catalog, opened):
    cache, table = PlanCache(), new_topic(catalog)
    with table.transaction() as change:
        change.remove_properties(*[name for name in table.properties if name.startswith("hardpack.")])
    hp = Hardpack(catalog, memory=cache.memory)
    assert name_of(table) not in dict(cache.plans(hp, Look(["t.*"], T0)))
    opened.clear()
    assert name_of(table) not in dict(cache.plans(hp, Look(["t.*"], T0)))
    assert name_of(table) not in opened


def test_a_table_that_cannot_be_read_is_a_failure_only_when_adopted_or_named(catalog, monkeypatch):
    import hardpack.operations.plan_tables as module

    stranger, ours = new_topic(catalog), new_topic(catalog)
    with stranger.transaction() as change:
        change.remove_properties(*[name for name in stranger.properties if name.startswith("hardpack.")])
    real, away = module.open_table, set()

    def open_table(catalog, name):
        if name in away:
            raise Unreadable(f"{name}: 403")
        return real(catalog, name)

    monkeypatch.setattr(module, "open_table", open_table)

    def look(*patterns):
        cache = PlanCache()  # as a new process
        return dict(cache.plans(Hardpack(catalog, memory=cache.memory), Look(patterns, T0)))

    away |= {name_of(stranger), name_of(ours)}
    assert {type(found) for found in look("t.*").values()} >= {NotAdopted}
    assert isinstance(look(name_of(ours))[name_of(ours)], Unreadable)
    away.clear()
    assert name_of(stranger) not in look("t.*")
    away |= {name_of(stranger), name_of(ours)}
    found = look("t.*")
    assert isinstance(found[name_of(ours)], Unreadable)
    assert isinstance(found[name_of(stranger)], NotAdopted)
    # one that is no topic any more, and one that is gone, are forgotten
    away.clear()
    catalog.drop_table(name_of(ours))
    look("t.*")
    assert name_of(ours) not in adopted_tables(Hardpack(catalog).home, catalog.name)


def test_a_new_process_goes_on_from_what_others_saw(catalog, opened, tmp_path):
    file = tmp_path / "looks" / "c.p.jsonl"
    kept, changed, stranger = new_topic(catalog), new_topic(catalog), new_topic(catalog)
    with stranger.transaction() as change:
        change.remove_properties(*[name for name in stranger.properties if name.startswith("hardpack.")])

    def look(now, *patterns):
        """As a new process."""
        opened.clear()
        cache = PlanCache(file)
        found = dict(cache.plans(Hardpack(catalog, memory=cache.memory), Look(patterns or ["t.*"], now)))
        cache.keep()
        return found

    first = look(T0)
    append(changed, {0: [row(0, "a")]})
    assert look(T0 + 1).keys() == first.keys()
    # other tests have tables here that nobody can read
    assert {name_of(kept), name_of(changed), name_of(stranger)}.intersection(opened) == {name_of(changed)}
    # of tables that were not asked for, what was seen stays
    look(T0 + 2, name_of(kept))
    assert opened == []
    catalog.drop_table(name_of(changed))
    assert name_of(changed) not in look(T0 + 3)
    assert name_of(changed) not in file.read_text()
    for spoilt in ("", "{}", "x", file.read_text().replace("hardpack looks", "of a version to come"), "[]\n[1]\n"):
        file.write_text(spoilt)
        look(T0 + 4)
        assert {name_of(kept), name_of(stranger)} <= set(opened), spoilt
    file.parent.chmod(0o500)
    look(T0 + 5)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_a_watch_tells_no_other_story(catalog, seed, tmp_path):
    file = tmp_path / "looks.jsonl"
    rng, cache, now, end = random.Random(seed), PlanCache(file), T0, 0
    settings = rng.choice([{"min_compaction_lag_ms": 40}, {"max_compaction_lag_ms": 60}, {"idle_tombstones": "expire"}])
    table = new_topic(catalog, min_cleanable_dirty_ratio=rng.choice([0.3, 0.9]), **settings)
    hp, name = Hardpack(catalog, memory=cache.memory), name_of(table)
    for _ in range(60):
        what = rng.choice(["wait"] * 6 + ["append", "state"])
        if what == "append":
            append(table, {0: [row(end, "a")]}, at=now)
            end += 1
        elif what == "state" and (snapshot := table.refresh().current_snapshot()):
            made = snapshot.snapshot_id, snapshot.sequence_number
            horizons = ((end, now + rng.randrange(50)),)
            last = LastClean(now, horizons=(end,))
            state = LogState(rng.randrange(end + 1), None, end, horizons, snapshot=made, last_clean=last)
            with table.transaction() as change:
                change.set_properties({STATE_PROPERTY: write_state({"0": state})})
        elif rng.randrange(4) == 0:  # another process
            cache.keep()
            cache = PlanCache(file)
            hp = Hardpack(catalog, memory=cache.memory)
        now += rng.randrange(15)
        (_, seen), *_ = cache.plans(hp, Look([name], now))
        fresh = Hardpack(catalog).plan(name, now)
        assert (seen.id, seen.logs) == (fresh.id, fresh.logs)


def test_tables_of_another_policy_are_not_opened_and_prove_no_outage(catalog, opened, monkeypatch, tmp_path):
    """A table that nobody can read is alone what a policy for the rest sees."""
    import hardpack.operations.plan_tables as module

    theirs, broken = name_of(new_topic(catalog)), "t.broken"
    path = tmp_path / "policies.yaml"
    path.write_text(f"policies: [{{name: first, tables: [{theirs}]}}, {{name: rest, tables: ['*.*']}}]")
    monkeypatch.setenv("HARDPACK_POLICIES", str(path))
    monkeypatch.setattr(module, "known_tables", lambda *_: [theirs, broken])
    found = dict(PlanCache().plans(Hardpack(catalog), Look(["*.*"], T0), "rest"))
    assert opened == [broken]
    assert (type(found[broken]), found[theirs].policy) == (NotAdopted, "first")
