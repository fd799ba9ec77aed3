"""Tables of a unit that one driver cleans and verifies side by side are what each alone would be (invariant 1)."""

import json
import random
import sys
from pathlib import Path

import pytest
from hardpack import Hardpack
from hardpack.cli.spark_submit import run_job
from hardpack.compaction.verify import must_hold
from hardpack.rules.reference.cleaner import Log, LogSegment, clean
from hardpack.rules.settings import Settings

from tests.topics import T0, append, name_of, new_topic, random_rows, row, rows_of

pytestmark = pytest.mark.spark
RULES = {"min.cleanable.dirty.ratio": 0, "delete.retention.ms": 1000, "null.keys": "drop"}
TABLES, AT_ONCE = 8, 4


@pytest.fixture
def submit(catalog, spark, home, tmp_path, monkeypatch):
    monkeypatch.setattr("hardpack.cli.spark_submit.Libraries.at_once", lambda *_: AT_ONCE)
    monkeypatch.setattr(
        Hardpack, "connect", classmethod(lambda cls, name, spark=spark: cls(catalog, spark or session, home))
    )
    session = spark

    def submitted(verb, plans):
        files = [tmp_path / f"{n}.json" for n in range(len(plans))]
        for file, plan in zip(files, plans, strict=True):
            file.write_text(plan.to_json())
        result = tmp_path / "result.json"
        monkeypatch.setattr(sys, "argv", ["job", "--result", str(result), "--plan", *map(str, files)])
        with pytest.raises(SystemExit) as ended:
            run_job(verb, "what it does")
        return ended.value.code, json.loads(result.read_text())

    return submitted


def filled(catalog, seed):
    """A topic of random rows, and its log on paper."""
    rng, segments, at = random.Random(seed), [], 0
    table = new_topic(catalog, **{name.replace(".", "_"): value for name, value in RULES.items()})
    for _ in range(3):
        segments.append(random_rows(rng, at, 120, 30))
        at = segments[-1][-1].offset
        append(table, {0: segments[-1]})
    return table, Log(tuple(LogSegment(rows[0].offset, tuple(rows)) for rows in segments))


def test_tables_side_by_side_equal_the_reference_and_have_pages_of_their_own(catalog, spark, home, submit):
    hp = Hardpack(catalog, spark, home)
    settings = Settings.model_validate(RULES)
    made = [filled(catalog, seed) for seed in range(TABLES)]
    plans = [hp.plan(name_of(table), now=T0) for table, _ in made]
    code, reports = submit(lambda lib, plan: lib.clean_or_replan(plan), plans)
    assert (code, [r["table"] for r in reports]) == (0, [name_of(table) for table, _ in made])
    for table, log in made:
        assert [r.offset for r in rows_of(table)] == [r.offset for r in clean(log, settings, T0).log.rows]
    code, verified = submit(lambda lib, plan: must_hold(lib.verify(plan.table, plan.now, plan.partitions)), plans)
    assert (code, [r["success"] for r in verified]) == (0, [True] * TABLES)
    for report in (*reports, *verified):
        pages = report["data_docs"] if isinstance(report["data_docs"], list) else [report["data_docs"]]
        assert all(report["table"] in Path(page).parts[-3] for page in pages)


def test_a_table_that_breaks_a_guarantee_is_told_of_alone(hp, catalog, submit):
    """A table's evidence is judged by its own promises, whatever is judged beside it."""
    made = [filled(catalog, seed)[0] for seed in range(TABLES)]
    plans = [hp.plan(name_of(table), now=T0) for table in made]
    assert submit(lambda lib, plan: lib.clean_or_replan(plan), plans)[0] == 0
    wrong = made[TABLES // 2]
    # an older row of a key comes back where the pass left a newer one
    kept = rows_of(wrong)[0]
    append(wrong, {0: [row(kept.offset, kept.key.decode(), "another")]})
    code, verified = submit(lambda lib, plan: lib.verify(plan.table, plan.now, plan.partitions), plans)
    assert code == 0
    assert [r["table"] for r in verified if not r["success"]] == [name_of(wrong)]
