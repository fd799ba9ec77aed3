"""Which tables were adopted when they were seen last, and what is said once that has changed."""

from hardpack import Hardpack
from hardpack.operations.known_tables import adopted_tables
from hardpack.operations.plan_tables import Look, PlanCache

from tests.table.test_listing import broken, busy
from tests.topics import T0, name_of


def test_a_table_that_was_taken_out_or_created_again_is_told_once(lakehouse, tmp_path, caplog):
    stays, left = busy(lakehouse), busy(lakehouse)
    hp = Hardpack(lakehouse, home=tmp_path)
    assert set(dict(PlanCache().plans(hp, Look(["*.*"], T0)))) == {name_of(stays), name_of(left)}
    with left.transaction() as change:
        change.remove_properties("hardpack.cleanup.policy")
    said = f"{name_of(left)} was adopted when last seen and is no longer"
    assert set(dict(PlanCache().plans(hp, Look(["*.*"], T0)))) == {name_of(stays)}
    assert said in caplog.text
    caplog.clear()
    assert set(dict(PlanCache().plans(hp, Look(["*.*"], T0)))) == {name_of(stays)}
    assert said not in caplog.text
    hp.adopt(name_of(left), {"cleanup.policy": "compact"})
    assert set(hp.tables("*.*")) == {name_of(stays), name_of(left)}


def test_a_list_notes_which_tables_are_adopted_for_the_next_one(lakehouse, tmp_path):
    table, hp = busy(lakehouse), Hardpack(lakehouse, home=tmp_path)
    other = name_of(busy(lakehouse))
    assert hp.tables("*.*") == sorted([name_of(table), other])
    bad = broken(table)
    assert hp.tables("*.*") == sorted([bad, other]), "its error is to be seen"
    lakehouse.drop_table(bad)
    assert hp.tables("*.*") == [other]
    assert adopted_tables(tmp_path, lakehouse.name) == {other}


def test_a_topic_whose_name_has_signs_of_globs_is_found_by_it(lakehouse, tmp_path):
    other = busy(lakehouse)
    lakehouse.create_table("t.br[red]ack", other.schema(), properties={"hardpack.cleanup.policy": "compact"})
    hp = Hardpack(lakehouse, home=tmp_path)
    assert hp.tables("t.br[red]ack") == ["t.br[red]ack"]
    assert hp.tables("t.br[red]ack", f"{name_of(other)[:-1]}*") == ["t.br[red]ack", name_of(other)]


def test_a_list_makes_no_home(lakehouse, tmp_path):
    busy(lakehouse)
    Hardpack(lakehouse, home=tmp_path / "none").tables("*.*")
    assert not (tmp_path / "none").exists()
