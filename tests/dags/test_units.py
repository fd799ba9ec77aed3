"""What a unit's tasks do when some of its tables cannot be cleaned; Spark is not asked."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.topics import T0, append, name_of, new_topic, row

pytestmark = pytest.mark.dags

GOOD = {"snapshot": 7, "now": 1, "logs": [], "data_docs": ""}
WRONG, REFUSED, AWAY = (
    {"error": f"it is {what}.", "exit_code": code} for what, code in (("wrong", 2), ("refused", 3), ("away", 5))
)
DIES: dict = {}
HANGS: dict = {"hangs": True}
"""The application hangs at it, until the task's time is over."""
SLOW = dict(GOOD)
"""Not yet done when an application that works side by side ends."""
"""The application dies at it."""


class Instance:
    """A task instance of which the earlier verbs returned this."""

    map_index, max_tries = 0, 2
    dag_id, run_id, task_id = "hardpack", "run", "unit.verb"

    def __init__(self, returned, try_number):
        self.returned, self.try_number = returned, try_number

    def xcom_pull(self, task_ids, map_indexes):
        return self.returned.get(task_ids.removeprefix("unit."))

    def xcom_push(self, key, value):
        self.returned[key] = value


class Hook:
    """Stands for the provider's, which reads when it is made what an application is submitted with."""

    _should_track_driver_status = _is_yarn_cluster_mode = _is_kubernetes = False

    def __init__(self, operator, submit):
        self.arguments, self._submit = list(operator.application_args), submit

    def _should_track_driver_via_k8s_api(self):
        return False

    def submit(self, _application):
        self._submit(self.arguments)

    def on_kill(self):
        self.killed = True


@pytest.fixture
def unit(monkeypatch):
    """Run a verb on a unit whose tables end so."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout
    from hardpack_airflow.operators import HardpackOperator

    asked = []

    def run(verb, ends, returned=None, try_number=1, after="", reported=False):
        def submit(arguments):
            plans = [json.loads(Path(file).read_text()) for file in arguments[arguments.index("--plan") + 1 :]]
            asked.append("".join(plan["table"] for plan in plans))
            results = []
            for plan in plans:
                if ends[plan["table"]] is DIES:
                    raise AirflowException("spark-submit ended with 137")
                if ends[plan["table"]] is HANGS:
                    raise AirflowTaskTimeout("Timeout, PID: 1")
                if ends[plan["table"]] is SLOW and "--one-by-one" not in arguments:
                    results.append(None)
                    continue
                results.append({"table": plan["table"], **ends[plan["table"]]})
                Path(arguments[arguments.index("--result") + 1]).write_text(json.dumps(results))
                if results[-1].get("exit_code") == 5:
                    break
            if any("error" in result for result in results):
                raise AirflowException("spark-submit ended with 1")

        monkeypatch.setattr(SparkSubmitOperator, "_get_hook", lambda operator: Hook(operator, submit))
        task = HardpackOperator(
            task_id=f"unit.{verb}", verb=verb, fails_in_report=reported,
            unit={"label": "some", "plans": [json.dumps({"table": table}) for table in ends]},
        )  # fmt: skip
        task.upstream_task_ids |= {after} - {""}
        instance = Instance(dict(returned or {}), try_number)
        events = []
        outlet = SimpleNamespace(add=lambda asset, extra: events.append((asset.name, sorted(extra))))
        context = {"ti": instance, "outlet_events": {task.outlets[0]: outlet} if task.outlets else {}}
        return SimpleNamespace(run=lambda: task.execute(context), ti=instance, events=events, asked=asked, task=task)

    return run


def failed(ran):
    """What a verb leaves that fails for good."""
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException):
        ran.run()
    return ran.ti.returned["return_value"]


def of(table, end):
    return {"catalog": "hardpack", "table": table, **end}


def test_an_error_in_one_table_does_not_keep_the_others_from_going_on(unit):
    one = failed(unit("phase_one", {"a": GOOD, "b": WRONG, "c": GOOD}))
    assert one == [of("a", GOOD), of("b", WRONG), of("c", GOOD)]
    ran = unit("phase_two", {"a": GOOD, "b": GOOD, "c": WRONG}, {"phase_one": one})
    two = failed(ran)
    assert (two, ran.asked[-1]) == ([of("a", GOOD), of("b", WRONG), of("c", WRONG)], "ac")
    last = unit("verify", {"a": GOOD, "b": GOOD, "c": GOOD}, {"phase_one": one, "phase_two": two}, reported=True)
    assert (last.run(), last.asked[-1]) == (two, "a")
    assert last.events == [("iceberg://hardpack/a", ["phase_one", "phase_two"])]


@pytest.mark.parametrize(
    ("ends", "tried", "again"),
    [
        ({"a": AWAY}, 1, True),
        ({"a": AWAY}, 3, False),
        ({"a": WRONG}, 1, False),
        ({"a": AWAY, "b": AWAY}, 2, True),
        ({"a": WRONG, "b": AWAY}, 1, True),
        ({"a": GOOD, "b": AWAY}, 2, True),
        ({"a": GOOD, "b": AWAY}, 3, False),
        ({"a": GOOD, "b": WRONG}, 1, False),
        ({"a": GOOD, "b": DIES, "c": GOOD}, 1, True),
        # another try would pass over a log that the refusal marked, and nobody would hear of it
        ({"a": GOOD, "b": REFUSED, "c": AWAY}, 1, False),
    ],
)
def test_a_unit_is_tried_again_only_when_that_may_help(unit, ends, tried, again):
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    ran = unit("phase_one", ends, try_number=tried)
    with pytest.raises(AirflowException) as ended:
        ran.run()
    assert isinstance(ended.value, AirflowFailException) is not again
    assert [result["table"] for result in ran.ti.returned["return_value"]] == list(ends)


def test_what_an_application_left_undone_when_it_died_another_goes_on_with(unit):
    ran = unit("phase_one", {"a": GOOD, "b": DIES, "c": GOOD, "d": AWAY, "e": GOOD}, try_number=3)
    a, b, c, d, e = failed(ran)
    assert ran.asked == ["abcde", "bcde", "cde", "e"]
    assert (a, c, d, e) == (of("a", GOOD), of("c", GOOD), of("d", AWAY), of("e", GOOD))
    assert b["error"].startswith("b: its Spark application ended before its time, see the task's log (spark-submit")


def test_where_nothing_goes_well_no_application_is_begun_for_each_table(unit):
    from airflow.sdk.exceptions import AirflowFailException

    ran = unit("phase_one", {"a": DIES, "b": AWAY, "c": GOOD, "d": GOOD}, try_number=3)
    with pytest.raises(AirflowFailException, match=r"d: not tried, as others of its unit could not be worked on"):
        ran.run()
    assert ran.asked == ["abcd", "abcd", "bcd"]


def test_a_table_that_ends_the_driver_takes_none_of_those_beside_it_along(unit):
    """What was worked on side by side when it died is worked on one after the other."""
    ran = unit("phase_one", {"a": SLOW, "b": GOOD, "c": DIES, "d": SLOW}, try_number=3)
    a, b, c, d = failed(ran)
    assert ran.asked == ["abcd", "acd", "d"]
    assert (a, b, d) == (of("a", SLOW), of("b", GOOD), of("d", SLOW))
    assert c["error"].startswith("c: its Spark application ended before its time")


def test_what_was_done_beside_a_table_whose_service_is_away_is_kept(unit):
    ran = unit("phase_one", {"a": REFUSED, "b": AWAY, "c": GOOD}, try_number=1)
    assert [result.get("exit_code") for result in failed(ran)] == [3, 5, None]
    assert ran.asked == ["abc", "c"]


def test_what_was_done_before_the_time_was_over_goes_on(unit):
    """The others of its unit would else have no phase two, no check and no event, and be due no more."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    ran = unit("phase_one", {"a": GOOD, "b": HANGS, "c": GOOD}, try_number=3)
    a, b, c = one = failed(ran)
    assert (a, ran.asked) == (of("a", GOOD), ["abc"]), "no other application is begun"
    for table, result in (("b", b), ("c", c)):
        assert result["error"].startswith(f"{table}: its Spark application took longer than it may")
    assert ran.task._hook.killed, "else the driver went on beside what comes next"
    last = unit("verify", {"a": GOOD, "b": GOOD, "c": GOOD}, {"phase_one": one, "phase_two": one}, reported=True)
    last.run()
    assert last.asked[-1] == "a"
    assert last.events == [("iceberg://hardpack/a", ["phase_one", "phase_two"])]
    again = unit("phase_one", {"a": GOOD, "b": HANGS}, try_number=1)
    with pytest.raises(AirflowException) as ended:
        again.run()
    assert not isinstance(ended.value, AirflowFailException)


def test_a_unit_of_which_all_tables_failed_before_starts_no_spark(unit):
    from airflow.sdk.exceptions import AirflowFailException

    ran = unit("verify", {"a": GOOD}, {"phase_one": [of("a", WRONG)], "phase_two": [of("a", WRONG)]})
    with pytest.raises(AirflowFailException, match="it is wrong"):
        ran.run()
    assert ran.asked == []


def test_what_is_told_of_other_tables_counts_for_nothing(unit):
    """The unit was planned anew after the verb before."""
    ran = unit("phase_two", {"a": GOOD, "b": GOOD}, {"phase_one": [of("b", WRONG), of("c", GOOD)]})
    assert ran.run() == [of("a", GOOD), of("b", GOOD)]


def test_a_table_that_cannot_be_maintained_fails_its_task_when_the_others_are_done(unit):
    from airflow.sdk.exceptions import AirflowFailException

    ran = unit("maintain", {"a": GOOD, "b": WRONG, "c": GOOD})
    with pytest.raises(AirflowFailException, match="it is wrong"):
        ran.run()
    assert ran.asked == ["abc"]
    assert [result["table"] for result in ran.ti.returned["return_value"]] == ["a", "b", "c"]


def test_why_maintenance_left_files_is_in_the_tasks_log(unit, capsys):
    unit("maintain", {"a": GOOD | {"notes": ["orphans are not looked for"]}, "b": GOOD | {"notes": []}}).run()
    assert "a: orphans are not looked for" in capsys.readouterr().out


def test_a_guarantee_that_broke_in_one_table_takes_no_event_from_the_others(unit):
    last = unit("verify", {"a": GOOD, "b": REFUSED}, {"phase_one": [of("a", GOOD), of("b", GOOD)]}, reported=True)
    assert last.run() == [of("a", GOOD), of("b", REFUSED)]
    assert last.events == [("iceberg://hardpack/a", ["phase_one"])]
    # where no report fails for it, the task does
    assert failed(unit("verify", {"a": GOOD, "b": REFUSED})) == [of("a", GOOD), of("b", REFUSED)]


def test_lineage_names_what_was_read_and_what_was_written(unit):
    log = {"bytes_written": 70, "files_written": 2}
    cleaned = {"snapshot": 9, "logs": [log, log]}
    ran = unit("phase_one", {"a": cleaned, "b": GOOD | {"snapshot": None, "logs": []}, "c": WRONG})
    failed(ran)
    told = ran.task.get_openlineage_facets_on_complete(None)
    assert [(d.namespace, d.name) for d in told.inputs] == [("iceberg://hardpack", "a"), ("iceberg://hardpack", "b")]
    (written,) = told.outputs
    facet = written.outputFacets["outputStatistics"]
    assert (written.name, facet.size, facet.fileCount) == ("a", 140, 4)


def test_an_application_is_given_the_catalog_of_its_unit_or_its_task(unit):
    for of_unit, of_task, given in (("", "", "hardpack"), ("", "west", "west"), ("far", "west", "far")):
        ran = unit("verify", {"a": GOOD}, {"phase_one": [of("a", GOOD)]})
        ran.task.unit |= {"catalog": of_unit} if of_unit else {}
        ran.task.catalog = of_task
        ran.run()
        arguments = ran.task.application_args
        assert arguments[arguments.index("--catalog") + 1] == given
        assert ran.events == [(f"iceberg://{given}/a", ["phase_one"])]


def test_a_verb_after_one_that_had_nothing_to_do_goes_on(unit):
    ran = unit("phase_two", {"a": GOOD}, {"phase_one": []}, after="unit.phase_one")
    assert ran.run() == [of("a", GOOD)]


def test_a_verb_does_not_go_on_where_the_one_before_left_nothing(unit):
    from airflow.sdk.exceptions import AirflowFailException

    ran = unit("phase_two", {"a": GOOD}, after="unit.phase_one")
    with pytest.raises(AirflowFailException, match=r"unit.phase_one was ended before it left a result"):
        ran.run()
    assert ran.asked == []


def test_a_table_is_planned_when_its_task_runs(catalog, monkeypatch, tmp_path):
    from airflow.sdk.exceptions import AirflowFailException
    from hardpack import Hardpack
    from hardpack_airflow.operators import HardpackOperator

    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    monkeypatch.setattr(Hardpack, "connect", classmethod(lambda cls, name: cls(catalog)))
    table = new_topic(catalog, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a"), row(1, "a")]})
    name, asked = name_of(table), []

    def submit(self, context, plans):
        asked.extend(json.loads(plan) for plan in plans)
        return [of(name, GOOD) for _ in plans]

    monkeypatch.setattr(HardpackOperator, "_submit_all", submit)
    monkeypatch.setattr("hardpack.clock.clock", lambda: T0)

    def ran(verb, **more):
        task = HardpackOperator(task_id="any", verb=verb, table=name, **more)
        # began an hour ago, and a sensor before this task may have waited
        run = SimpleNamespace(run_type="manual", run_after=datetime.fromtimestamp(T0 / 1000 - 3600, UTC))
        events = {task.outlets[0]: None} if task.outlets else {}
        context = {"ti": Instance({}, 1), "dag_run": run, "outlet_events": events}
        return task.execute(context)

    # the newest segment stays
    assert (ran("phase_one"), asked) == ([], [])
    append(table, {0: [row(2, "b")]})
    assert ran("phase_one") == [of(name, GOOD)]
    assert [log["action"] for log in asked.pop()["logs"]] == ["clean"]
    with pytest.raises(AirflowFailException, match="there is no partition 7, it has 0"):
        ran("phase_one", partitions=["7"])
    whole = {"table": name, "now": T0, "dry_run": False, "partitions": None}
    for verb in ("phase_two", "verify", "maintain"):
        monkeypatch.setattr("hardpack_airflow.operators.done_without_spark", lambda _, plans, __: [None for _ in plans])
        ran(verb)
        assert asked.pop() == whole
    for verb in ("phase_two", "verify"):
        # as the library takes them too
        ran(verb, partitions=[0])
        assert asked.pop() == whole | {"partitions": ["0"]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"verb": "clean", "table": "a.b"}, "verb is 'clean', expected one of phase_one, phase_two, verify, maintain"),
        ({"verb": "verify"}, "works on a unit or on a table"),
        ({"verb": "verify", "table": "a.b", "unit": {}}, "works on a unit or on a table"),
        ({"verb": "maintain", "table": "a.b", "partitions": ["0"]}, "maintain is of a whole table"),
    ],
)
def test_what_an_operator_cannot_do_is_said_when_the_dag_is_parsed(arguments, words):
    from hardpack_airflow.operators import HardpackOperator

    with pytest.raises(ValueError, match=words):
        HardpackOperator(task_id="any", **arguments)


@pytest.mark.parametrize("verb", ["phase_two", "verify"])
def test_spark_is_started_only_for_tables_with_rows_to_read(unit, monkeypatch, verb):
    from hardpack_airflow import operators

    def done(asked, plans, _catalog):
        assert asked == verb
        return [None if '"b"' in plan else of("quiet", GOOD) for plan in plans]

    monkeypatch.setattr(operators, "done_without_spark", done)
    ran = unit(verb, {"a": DIES, "b": GOOD, "c": DIES})
    assert (ran.run(), ran.asked) == ([of("quiet", GOOD), of("b", GOOD), of("quiet", GOOD)], ["b"])
    ran = unit(verb, {"a": DIES, "c": DIES})
    assert (ran.run(), ran.asked) == ([of("quiet", GOOD), of("quiet", GOOD)], ["b"])


def test_a_task_has_a_timeout_unless_its_author_gives_one(monkeypatch):
    from airflow.sdk import DAG
    from hardpack_airflow.operators import HardpackOperator

    hours = {"mine": timedelta(hours=12)}
    with DAG("own", default_args={"execution_timeout": hours["mine"]}):
        assert HardpackOperator(task_id="a", verb="verify", table="x.y").execution_timeout == hours["mine"]
    assert HardpackOperator(task_id="b", verb="verify", table="x.y").execution_timeout == timedelta(hours=6)
    assert HardpackOperator(task_id="c", verb="verify", table="x.y", execution_timeout=None).execution_timeout is None
    monkeypatch.setenv("AIRFLOW__HARDPACK__UNIT_TIMEOUT_MS", "5000")
    assert HardpackOperator(task_id="d", verb="maintain", table="x.y").execution_timeout == timedelta(seconds=5)
