"""The sensor looks inside its task, and only a wait goes to the triggerer."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.dags

UNIT = {"label": "db.t 0", "plans": ["{}"]}
REASONS = ["db.t/0: none, dirty ratio 0.100 is not above 0.5"]


@pytest.fixture
def looks(monkeypatch, tmp_path):
    """What the next looks say, an error to be raised among them; the gauges that were sent are in `sent`."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    from hardpack_airflow import sensor, trigger

    answers = []

    def look(**question):
        said = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(said, Exception):
            raise said
        seen = {"tables": ["db.t"] if said else [], "units": said, "reasons": REASONS}
        return seen | {"errors": [], "lasting": False, "gauges": {}, "held": []}

    monkeypatch.setattr(sensor, "plan_units", look)
    monkeypatch.setattr(trigger, "plan_units", look)
    monkeypatch.setattr(sensor, "send", lambda policy, gauges: None)
    return answers


def sense(wait=0, kind="manual", **named):
    from hardpack_airflow.sensor import DirtyLogsSensor

    policy = '{"name": "all", "tables": ["*.*"]}'
    task = DirtyLogsSensor(task_id="sense", policy=policy, tables="db.*", wait=wait, **named)
    run = SimpleNamespace(run_type=kind, run_after=datetime(2026, 1, 1, tzinfo=UTC))
    return task.execute({"dag_run": run})


def test_what_is_due_is_told_by_the_task_itself(looks):
    looks.append([UNIT])
    for wait in (0, 60):
        assert sense(wait)["due"]


@pytest.mark.parametrize("lasting", [False, True])
def test_an_outage_of_a_table_is_worth_another_try(looks, monkeypatch, lasting):
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from hardpack_airflow import sensor

    errors = ["db.t: a service did not answer"]
    found = {"tables": [], "units": [], "reasons": [], "errors": errors, "lasting": lasting, "gauges": {}, "held": []}
    monkeypatch.setattr(sensor, "plan_units", lambda **_: found)
    with pytest.raises(AirflowException, match=r"db\.t: a service did not answer") as told:
        sense()
    assert isinstance(told.value, AirflowFailException) == lasting


def test_what_is_not_due_ends_the_task_unless_there_is_time_to_wait(looks):
    from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

    looks.append([])
    with pytest.raises(AirflowSkipException, match=r"no log is due: db\.t/0: none"):
        sense()
    with pytest.raises(TaskDeferred):
        sense(wait=60)


def test_a_run_that_is_asked_for_one_thing_and_told_another_does_nothing(looks):
    """By [core] dag_run_conf_overrides_params the form of a run may count for nothing, and a dry run would be none."""
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow.sensor import asked

    run = SimpleNamespace(run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC))
    params = {"tables": "*.*", "partitions": [], "force": False, "dry_run": False}
    policy = '{"name": "all", "tables": ["*.*"]}'
    for name, value in {"tables": "db.t", "partitions": ["0"], "force": True, "dry_run": True}.items():
        run.conf = {name: value}
        with pytest.raises(AirflowFailException, match=f"started with {name}=.*dag_run_conf_overrides_params to True"):
            asked(policy, "*.*", "[]", "false", {"dag_run": run, "params": params})
        assert asked(policy, "*.*", "[]", "false", {"dag_run": run, "params": params | {name: value}})["tables"]


def test_a_run_that_is_asked_for_what_its_form_has_not_does_nothing():
    """Airflow hands on whatever it is given: `table` for `tables` would clean every table of the policy."""
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack_airflow.planning import see_that_the_form_counts
    from hardpack_airflow.sensor import asked

    form = {"tables": "*.*", "partitions": [], "force": False, "dry_run": False}
    policy = '{"name": "all", "tables": ["*.*"]}'
    for conf in ({"table": "db.t", "force": True}, {"dry-run": True}):
        run = SimpleNamespace(run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC), conf=conf)
        context = {"dag_run": run, "params": form | conf, "dag": SimpleNamespace(params=form)}
        told = rf"started with '{next(iter(conf))}', which the form of its DAG does not ask, expected some of tables, "
        with pytest.raises(AirflowFailException, match=told):
            asked(policy, "*.*", "[]", "false", context)
        # in an author's own DAG it may be for other tasks
        theirs = context | {"dag": SimpleNamespace(params={"mine": 1, "tables": "x.*", "action": "load"})}
        assert asked(policy, "*.*", "[]", "false", theirs)["tables"]
        # the forms of maintenance and of work by hand are shorter
        with pytest.raises(AirflowFailException, match="does not ask"):
            see_that_the_form_counts(context | {"dag": SimpleNamespace(params={"tables": "*.*"})}, all_ours=True)
    # what Airflow's own providers add is nobody's question
    run = SimpleNamespace(run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC), conf={"openlineage": {}})
    assert asked(policy, "*.*", "[]", "false", context | {"dag_run": run, "params": form})["tables"]


def test_what_goes_through_airflows_database_is_bounded(monkeypatch):
    from hardpack.operations import units
    from hardpack_airflow import planning
    from hardpack_airflow.assets import MOST_LOGS, compacted

    work = SimpleNamespace(
        plans=[], refused=[], reasons=[], errors=[f"db.t{n}: away." for n in range(1000)], lasting=False, held=[],
        units=lambda _: ([], ""),
    )  # fmt: skip
    monkeypatch.setattr(units, "find_work", lambda *_: work)
    monkeypatch.setattr("hardpack.Hardpack.connect", lambda *_, **__: None)
    seen = planning.plan_units("hardpack", {"name": "all", "tables": ["*.*"]}, ["*.*"], None, False, 1)
    assert len(seen["errors"]) == planning.MOST_ERRORS + 1
    assert seen["errors"][-1] == "and 700 more tables that could not be read or planned"
    names = ("rows_before", "rows_after", "bytes_before", "bytes_after", "checkpoint_before", "checkpoint_after")
    logs = [dict.fromkeys(names, 1) | {"partition": n} for n in range(10_000)]
    event = compacted({"snapshot": 1, "now": 2, "logs": logs})
    assert (len(event["logs"]), event["more_logs"]) == (MOST_LOGS, 9800)
    assert compacted({"snapshot": 1, "now": 2, "logs": logs[:1]}).keys() == {"snapshot", "now", "logs"}


def test_readers_are_not_asked_by_a_run_that_does_nothing(monkeypatch):
    from airflow.sdk import DAG
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack.policy import Policy
    from hardpack_airflow import readers

    form = {"tables": "*.*", "partitions": [], "force": False, "dry_run": False}
    run = SimpleNamespace(run_type="manual", conf={"dryrun": True})
    context = {"dag_run": run, "params": form | run.conf, "dag": SimpleNamespace(params=form)}
    asked = []
    monkeypatch.setattr(readers, "get_current_context", lambda: context)
    monkeypatch.setattr(readers, "ask", lambda *_: asked.append(1))
    with DAG("any"):
        task = readers.ask_readers_task(Policy(name="any", tables=("db.t",))).operator
    with pytest.raises(AirflowFailException, match="Nothing was changed"):
        task.python_callable()
    assert asked == []


def test_the_age_of_the_last_run_counts_from_the_start_of_the_last_that_ended_well():
    from hardpack_airflow.sensor import asked

    run = SimpleNamespace(run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC))
    context = {"dag_run": run, "prev_start_date_success": datetime(2025, 12, 31, tzinfo=UTC)}
    policy = '{"name": "all", "tables": ["*.*"]}'
    assert asked(policy, "*.*", "[]", "false", context)["previous"] == 1767139200000
    assert asked(policy, "*.*", "[]", "false", context | {"prev_start_date_success": None})["previous"] is None


def test_native_objects_are_taken_too():
    from hardpack_airflow.sensor import asked

    run = SimpleNamespace(run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC))
    found = asked('{"name": "all", "tables": ["*.*"]}', "db.a, db.[b,c]", ["0"], True, {"dag_run": run})
    assert (found["tables"], found["partitions"], found["force"]) == (["db.a", "db.[b,c]"], ["0"], True)


@pytest.mark.parametrize("name", ["db.t", "db.t[1]", "db.a,b", "db.*", "db.?", "db.[", "db.]x"])
def test_a_name_may_have_signs_of_globs(name):
    from fnmatch import fnmatchcase

    from hardpack_airflow.config import glob_of, globs

    assert globs(f"x.y, {glob_of(name)}") == ["x.y", glob_of(name)]
    assert fnmatchcase(name, glob_of(name))
    assert not fnmatchcase("db.t1", glob_of(name)) or name == "db.t1"


def test_by_hand_a_name_that_matches_nothing_is_a_mistake(looks, monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    monkeypatch.setitem(globals(), "REASONS", [])
    looks.append([])
    # started by somebody, or by a task of another DAG, which Airflow tells apart from 3.3 on
    for kind in ("manual", "operator_triggered"):
        with pytest.raises(AirflowFailException, match=r"db\.\*: no adopted table matches; mend the name or glob"):
            sense(kind=kind)
    with pytest.raises(AirflowSkipException):
        sense(kind="scheduled")


def test_bad_input_fails_for_good_and_an_outage_is_tried_again(looks, monkeypatch):
    import tenacity.nap
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from hardpack.errors import BadInput, Unavailable

    naps = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", naps.append)
    looks.append(BadInput("x.y: no such table"))
    with pytest.raises(AirflowFailException, match="no such table"):
        sense(wait=60)
    assert naps == []
    looks[:] = [Unavailable("away"), [UNIT]]
    assert sense()["due"]
    assert len(naps) == 1
    looks[:] = [Unavailable("away")]
    with pytest.raises(AirflowException, match="away") as failure:
        sense()
    assert not isinstance(failure.value, AirflowFailException)


def test_a_trigger_fires_only_after_the_scheduler_has_seen_the_worker_end(looks, monkeypatch):
    from hardpack_airflow import trigger

    slept, now = [], [0.0]

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(trigger.asyncio, "sleep", sleep)
    monkeypatch.setattr(trigger.time, "time", lambda: now[0])

    async def first(of):
        return await anext(of.run())

    looks[:] = [[], [], [UNIT]]
    event = asyncio.run(first(trigger.DirtyLogsTrigger({}, wait=100, poke_interval=1)))
    assert event.payload["due"]
    assert slept == [trigger.SHORTEST_PAUSE, 1, 1]
    looks[:] = [[]]
    assert not asyncio.run(first(trigger.DirtyLogsTrigger({}, wait=100, poke_interval=60))).payload["due"]
    assert slept[3:] == [60, 60]


def test_a_triggerer_that_starts_anew_does_not_begin_the_wait_anew(monkeypatch):
    from hardpack_airflow import trigger

    monkeypatch.setattr(trigger.time, "time", lambda: 1000.0)
    _, arguments = trigger.DirtyLogsTrigger({}, wait=100).serialize()
    monkeypatch.setattr(trigger.time, "time", lambda: 1090.0)
    assert trigger.DirtyLogsTrigger(**arguments).until == 1100
    # as versions before have written it
    assert trigger.DirtyLogsTrigger(question={}, wait=5, poke_interval=60, by_clock=True).until == 1095


def test_who_waits_looks_at_its_own_time_unless_the_run_is_of_an_interval(looks, monkeypatch):
    """By the time at which the wait began no log would ever become overdue."""
    from airflow.sdk.exceptions import TaskDeferred
    from hardpack_airflow import trigger

    looks.append([])
    for kind, by_clock in (("manual", True), ("asset_triggered", True), ("scheduled", False), ("backfill", False)):
        with pytest.raises(TaskDeferred) as deferred:
            sense(wait=60, kind=kind)
        assert deferred.value.trigger.serialize()[1]["by_clock"] is by_clock
    asked = []
    monkeypatch.setattr("hardpack.clock.clock", lambda: 77)
    monkeypatch.setattr(trigger, "plan_units", lambda **question: asked.append(question["now"]))
    for by_clock in (True, False):
        asyncio.run(trigger.DirtyLogsTrigger({"now": 5}, by_clock=by_clock)._look())
    assert asked == [77, 5]
