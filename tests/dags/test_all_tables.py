"""Which tables the DAGs over all of them work on."""

import json
from types import SimpleNamespace

import pytest

from tests.topics import append, name_of, new_topic, row

pytestmark = pytest.mark.dags


def test_a_table_that_nobody_adopted_and_nobody_can_read_is_no_work(catalog, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from hardpack import Hardpack
    from hardpack.errors import Unreadable
    from hardpack.operations import known_tables
    from hardpack.operations.known_tables import note_adopted
    from hardpack_airflow.all_tables import table_requests

    good, ours, foreign = (name_of(new_topic(catalog)) for _ in range(3))
    real = known_tables.open_table

    def open_table(catalog, name):
        if name in (ours, foreign):
            raise Unreadable(f"{name}: the table's metadata cannot be understood")
        return real(catalog, name)

    monkeypatch.setattr(known_tables, "open_table", open_table)
    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name: cls(catalog)))
    note_adopted(tmp_path, catalog.name, {ours: True})

    def tables(*patterns):
        return {
            json.loads(plan)["table"]
            for request in table_requests(catalog.name, list(patterns), 1, True)
            for plan in request["plans"]
        }

    assert {good, ours} <= tables("t.*")
    assert foreign not in tables("t.*")
    assert tables(foreign) == {foreign}


def test_tables_share_applications_and_there_are_never_too_many_of_these(catalog, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from hardpack import Hardpack
    from hardpack_airflow.all_tables import MOST_TASKS, table_requests

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name: cls(catalog)))
    for number, share in ((0, 0), (1, 1), (120, 50), (30_000, 60)):
        names = [f"t.t{n:05}" for n in range(number)]
        monkeypatch.setattr(Hardpack, "tables", lambda self, pattern, names=names: names)
        requests = table_requests(catalog.name, ["t.*"], 1, False)
        assert [json.loads(plan)["table"] for request in requests for plan in request["plans"]] == names
        assert max((len(request["plans"]) for request in requests), default=0) == share
        assert len(requests) <= MOST_TASKS


def test_resume_by_hand_says_how_each_log_stands_and_what_it_cannot_do(catalog, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack import Hardpack
    from hardpack_airflow.by_hand import _changed

    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name: cls(catalog)))
    table = new_topic(catalog)
    append(table, {0: [row(0, "a")], 1: [row(0, "b")]})
    params = {"table": name_of(table), "catalog": catalog.name, "partitions": [], "trust_late_rows": False}
    assert _changed(params | {"action": "pause"}) == {"0": "paused 1 times", "1": "paused 1 times"}
    one = params | {"action": "resume", "partitions": ["1"]}
    assert _changed(one) == {"1": "cleaned when it is due"}
    with pytest.raises(AirflowFailException, match="partition 1 is neither paused nor marked by a pass"):
        _changed(one)


def test_what_is_done_by_hand_is_not_done_twice_by_another_try(monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow import by_hand

    task = by_hand.by_hand_dag().get_task("change")
    assert (task.retries, task.multiple_outputs) == (0, False)
    done, context = [], {"params": {}, "ti": SimpleNamespace(try_number=1)}
    monkeypatch.setattr(by_hand, "_changed", lambda _: done.append(1) or {f"{n}": "paused" for n in range(300)})
    monkeypatch.setattr(by_hand, "get_current_context", lambda: context)
    assert len(task.python_callable()) == by_hand.MOST_TOLD
    context["ti"].try_number = 2
    with pytest.raises(AirflowFailException, match=r"could pause or resume twice.*Nothing was changed"):
        task.python_callable()
    assert done == [1]
