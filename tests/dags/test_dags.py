"""The DAGs of the folder and of the package as Airflow parses them: valid, light, and red alone when wrong."""

import json

import pytest

from tests.dags.own_process import python

pytestmark = pytest.mark.dags


PARSE = """
import json, sys, time
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
started = time.process_time()
bag = DagBag("dags", collect_dags=True)
seconds = time.process_time() - started
heavy = [m for m in ("pyspark", "great_expectations", "pyiceberg", "pandas") if m in sys.modules]
dags = {
    d.dag_id: {t.task_id: [t.pool, t.retries, t.owner, t.execution_timeout.total_seconds()] for t in d.tasks}
    for d in bag.dags.values()
}
print("##" + json.dumps([seconds, bag.import_errors, heavy, dags, [d.catchup for d in bag.dags.values()]]))
"""


def test_the_folder_is_valid_and_light(airflow_env, capsys):
    seconds, errors, heavy, dags, catchup = json.loads(python(PARSE, airflow_env[2]).split("##")[1])
    with capsys.disabled():
        print(f"\nparse time of dags/: {seconds:.2f} s")
    assert errors == {}
    assert heavy == []
    assert seconds < 3
    assert set(dags) == {"hardpack", "hardpack_maintenance", "hardpack_quality", "hardpack_by_hand"}
    assert list(dags["hardpack_maintenance"]) == ["tables", "maintain"]
    assert list(dags["hardpack_quality"]) == ["tables", "verify"]
    order = ["sense", "plan", "unit.phase_one", "unit.phase_two", "unit.verify", "report"]
    assert list(dags["hardpack"]) == order
    assert set(dags["hardpack_by_hand"]) == {"choose", "change", "verify"}
    for dag in (dags["hardpack"], dags["hardpack_maintenance"]):
        for name, task in dag.items():
            spark = name.startswith("unit.") or name == "maintain"
            # what reads metadata alone does not wait behind a cleaning
            assert task == ["hardpack" if spark else "default_pool", 2, "hardpack", 6 * 3600 if spark else 600], name
    assert catchup == [False] * len(dags)


def test_each_policy_of_the_file_is_a_dag(airflow_env, tmp_path):
    path = tmp_path / "policies.yaml"
    path.write_text(
        "policies:\n- {name: orders, tables: [shop.orders], schedule: '*/10 * * * *', pool: orders, owner: shop,\n"
        "   retries: 5, unit.timeout.ms: 60000, look.timeout.ms: 5000}\n"
        "- {name: rest, tables: ['*.*'], schedule: ''}\n"
    )
    env = airflow_env[2] | {"HARDPACK_POLICIES": str(path)}
    _, errors, heavy, dags, _ = json.loads(python(PARSE, env).split("##")[1])
    assert (errors, heavy) == ({}, [])
    names = ("orders", "rest", "maintenance", "quality", "by_hand")
    assert set(dags) == {f"hardpack_{name}" for name in names}
    assert dags["hardpack_orders"]["unit.verify"] == ["orders", 5, "shop", 60]
    assert dags["hardpack_orders"]["sense"] == ["default_pool", 5, "shop", 5]
    path.write_text("policies: [{name: orders, tables: []}]")
    _, errors, _, dags, _ = json.loads(python(PARSE, env).split("##")[1])
    (said,) = errors.values()
    assert "policies.0.tables" in said
    assert dags == {}


def test_a_wrong_policy_is_a_red_dag_of_its_own_beside_the_others(airflow_env, tmp_path):
    path = tmp_path / "policies.yaml"
    path.write_text(
        "policies:\n"
        "- {name: orders, tables: [shop.orders], owner: shop, shedule: x}\n"
        "- {name: lost, tables: [shop.lost], on.failure: 'no.such:thing'}\n"
        "- {name: raises, tables: [shop.raises], on.failure: 'raises:f'}\n"
        "- {name: uncalled, tables: [shop.uncalled], on.failure: 'os:sep'}\n"
        "- {name: hand, tables: [shop.hand], schedule: '', shedule: x}\n"
        "- {name: rest, tables: ['*.*']}\n"
    )
    (tmp_path / "raises.py").write_text("raise RuntimeError('no')")
    code = (
        f"""
import json, sys
sys.path.append({str(tmp_path)!r})
"""
        + """
from hardpack_airflow import policy_dags
dags = policy_dags()
said = {}
for name in ("orders", "lost", "raises", "uncalled", "hand"):
    dag = dags[f"hardpack_{name}"]
    (task,) = dag.tasks
    try:
        task.python_callable()
    except Exception as error:
        said[name] = [task.task_id, task.retries, task.owner, type(error).__name__, str(error), dag.doc_md,
                      "refused" in dag.tags, str(dag.schedule)]
print("##" + json.dumps([sorted(dags), said, len(dags["hardpack_rest"].tasks)]))
"""
    )
    found, said, tasks = json.loads(python(code, airflow_env[2] | {"HARDPACK_POLICIES": str(path)}).split("##")[1])
    names = ("by_hand", "hand", "lost", "maintenance", "orders", "quality", "raises", "rest", "uncalled")
    assert (found, tasks) == ([f"hardpack_{name}" for name in names], 6)
    task, retries, owner, kind, problem, doc, tagged, _ = said["orders"]
    assert tagged
    assert "raises:f, which cannot be imported (no)" in said["raises"][4]
    assert "0 * * * *" in said["hand"][7]
    assert "os:sep, which cannot be imported (sep is no function)" in said["uncalled"][4]
    assert (task, retries, owner, kind) == ("sense", 0, "shop", "AirflowFailException")
    assert "policies.0.shedule: " in problem
    assert doc.startswith(f"**Refused**: {problem}")
    assert said["lost"][4].startswith("policy lost: on.failure names no.such:thing, which cannot be imported")


def test_a_policy_that_is_refused_still_calls_somebody(airflow_env, tmp_path):
    path = tmp_path / "policies.yaml"
    path.write_text(
        "policies:\n"
        "- {name: late, tables: [a.b], tags: [shop], on.failure: 'operator:add', deadline.ms: 1000,\n"
        "   on.deadline: 'a.b:c'}\n"
        "- {name: lost, tables: [a.c], on.failure: 'no.such:thing'}\n"
        "- {name: gone, tables: [a.d], on.failure: 'leaves:f'}\n"
        "- {name: rest, tables: ['*.*']}\n"
    )
    (tmp_path / "leaves.py").write_text("import sys; sys.exit()")
    code = (
        f"import json, sys; sys.path.append({str(tmp_path)!r})"
        + """
from hardpack_airflow import policy_dags
dags = policy_dags()
said = {name: [getattr(dag.on_failure_callback, "__name__", None), "shop" in dag.tags, "refused" in dag.tags]
        for name, dag in dags.items()}
print("##" + json.dumps(said))
"""
    )
    said = json.loads(python(code, airflow_env[2] | {"HARDPACK_POLICIES": str(path)}).split("##")[1])
    assert said["hardpack_late"] == ["add", True, True]
    assert said["hardpack_lost"] == said["hardpack_gone"] == [None, False, True]
    assert said["hardpack_rest"] == [None, False, False]


def test_readers_are_asked_before_a_run_looks_for_work(airflow_env, tmp_path):
    path = tmp_path / "policies.yaml"
    path.write_text(
        "policies: [{name: orders, tables: [shop.orders], readers: [{table: shop.orders, name: r, group: b/g/t}]}]"
    )
    code = """
import json
from hardpack_airflow import policy_dags, readers
from hardpack import Hardpack
from hardpack.operations.follow_readers import Followed
dag = policy_dags()["hardpack_orders"]
sense = dag.get_task("sense")
said = []
for codes in ((0, 0), (0, 2), (2, 4)):
    class Fake:
        def __enter__(self): return self
        def __exit__(self, *_): pass
        def follow_readers(self, sources):
            return [Followed(s.table, s.name, f"{s.group} {code}.", code) for code in codes for s in sources]
    Hardpack.connect = lambda catalog: Fake()
    try:
        readers.ask("hardpack", json.dumps([{"table": "shop.orders", "name": "r", "group": "b/g/t"}]))
        said.append("")
    except Exception as error:
        said.append(f"{type(error).__name__} {error}")
print("##" + json.dumps([sorted(sense.upstream_task_ids), sense.trigger_rule, dag.get_task("readers").pool,
                         "`readers` asks" in dag.doc_md, sorted(t.task_id for t in dag.leaves), said]))
"""
    env = airflow_env[2] | {"HARDPACK_POLICIES": str(path)}
    upstream, rule, pool, told, leaves, said = json.loads(python(code, env).split("##")[1])
    assert (upstream, rule, pool, told) == (["readers"], "all_done", "default_pool", True)
    assert leaves == ["readers_asked", "report"]
    assert said == ["", "AirflowFailException b/g/t 2.", "AirflowException b/g/t 2.; b/g/t 4."]


def test_what_a_dag_author_adds_takes_nothing_away(airflow_env):
    code = """
import json
from hardpack.policy import Policy
from hardpack_airflow.factory import compaction_dag
policy = Policy(name="orders", tables=("a.b",), pool="orders", retries=7, timezone="Europe/Berlin",
                schedule="0 4 * * *", tags=("shop",), on_failure="operator:add", spark_conn_id="big",
                driver_memory="6g")
from airflow.sdk import Param
dag = compaction_dag(policy, default_args={"email_on_failure": False, "owner": "me", "pool": "any"}, tags=["mine"],
                     params={"team": Param("shop")})
assert set(dag.params) == {"tables", "partitions", "force", "dry_run", "team"}
own = compaction_dag(Policy(name="own", tables=("a.b",)), default_args={"conn_id": "k8s", "driver_memory": "8g"})
assert (own.get_task("unit.verify")._conn_id, own.get_task("unit.verify")._driver_memory) == ("k8s", "8g")
one = dag.get_task("unit.phase_one")
print("##" + json.dumps([one.pool, one.retries, one.owner, one.execution_timeout.total_seconds(), sorted(dag.tags),
      one._conn_id, one._driver_memory, str(dag.timetable.timezone),
      dag.dagrun_timeout.total_seconds(), dag.on_failure_callback.__name__]))
try:
    compaction_dag(policy.model_copy(update={"on_failure": "no.such:thing"}))
except Exception as error:
    print("##" + str(error))
"""
    found, said = python(code, airflow_env[2]).split("##")[1:]
    pool, retries, owner, timeout, tags, conn, memory, zone, longest, called = json.loads(found)
    assert (pool, retries, owner, timeout) == ("orders", 7, "me", 6 * 3600)
    assert (tags, conn, memory, zone, longest, called) == (["mine"], "big", "6g", "Europe/Berlin", 7 * 86400, "add")
    assert said.startswith("policy orders: on.failure names no.such:thing, which cannot be imported")


def test_the_plugin_loads(airflow_env):
    code = (
        "from airflow import plugins_manager as p; import json;"
        "p.ensure_plugins_loaded() if hasattr(p, 'ensure_plugins_loaded') else None;"
        "found = p._get_plugins() if hasattr(p, '_get_plugins') else (p.plugins, p.import_errors);"
        "print('##' + json.dumps([[x.name for x in found[0]], found[1]]))"
    )
    names, errors = json.loads(python(code, airflow_env[2]).split("##")[1])
    assert "hardpack" in names
    assert errors == {}


def test_the_installed_package_is_all_that_airflow_is_given(airflow_env, tmp_path):
    """Plugin, settings and entry points are found without a folder of ours."""
    code = """
import json
from airflow.providers_manager import ProvidersManager
from airflow.sdk import conf
from hardpack_airflow.operators import job_file
from hardpack_airflow.report import VERBS
from hardpack_airflow.provider import OPTIONS, SECTION
manager = ProvidersManager()
manager.initialize_providers_configuration()
options = dict(manager.provider_configs)[SECTION][SECTION]["options"]
known = {name: option["default"] for name, option in options.items()}
links = [name for name in manager.extra_links_class_names if name.startswith("hardpack_airflow.")]
jobs = [job_file(verb).is_file() for verb in (*VERBS, "maintain")]
print("##" + json.dumps([known == {name: default for name, (default, _) in OPTIONS.items()}, sorted(links), jobs,
                         conf.get(SECTION, "catalog")]))
"""
    same, links, jobs, catalog = json.loads(python(code, airflow_env[2]).split("##")[1])
    assert same
    names = ("DataDocsLink", "ReportLink", "SparkLink", "TableLink")
    assert links == [f"hardpack_airflow.links.{name}" for name in names]
    assert jobs == [True] * 4
    assert catalog == "hardpack"


def test_a_wrong_setting_of_the_section_is_a_red_dag_beside_the_others(airflow_env, tmp_path):
    """Airflow takes all DAGs of a file away that raises."""
    wrong = {"MAINTENANCE_SCHEDULE": "0 3 * *", "UNIT_BYTES": "100GiB", "SCHEDULE": "hourly", "POOL": "spark"}
    env = airflow_env[2] | {f"AIRFLOW__HARDPACK__{name}": value for name, value in wrong.items()}
    code = """
import json
from hardpack_airflow import policy_dags
said = {name: ("refused" in dag.tags, dag.doc_md, [t.pool for t in dag.tasks]) for name, dag in policy_dags().items()}
print("##" + json.dumps(said))
"""
    said = json.loads(python(code, env).split("##")[1])
    assert [name for name, (refused, *_) in said.items() if refused] == ["hardpack", "hardpack_maintenance"]
    assert "unit_bytes is '100GiB': Input should be a valid integer" in said["hardpack"][1]
    assert "maintenance_schedule: '0 3 * *' is no cron expression" in said["hardpack_maintenance"][1]
    assert "spark" in said["hardpack_by_hand"][2]
    path = tmp_path / "policies.yaml"
    path.write_text("policies: [{name: rest, tables: ['*.*']}]")
    said = json.loads(python(code, env | {"HARDPACK_POLICIES": str(path)}).split("##")[1])
    assert [name for name, (refused, *_) in said.items() if refused] == ["hardpack_maintenance"], "the file replaces"
    said = json.loads(python(code, airflow_env[2] | {"AIRFLOW__HARDPACK__UNIT_TIMEOUT_MS": "6h"}).split("##")[1])
    assert all(refused and "unit_timeout_ms" in doc for refused, doc, _ in said.values())


def test_what_the_provider_says_is_as_airflow_wants_it():
    from importlib.resources import files

    import jsonschema
    from hardpack.policy import Policy
    from hardpack_airflow.provider import OPTIONS, get_provider_info

    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)
    names = "schedule", "unit_bytes", "unit_timeout_ms", "pool"
    defaults = {name: Policy.model_fields[name].default for name in names}
    assert {name: OPTIONS[name][0] for name in defaults} == {name: str(value) for name, value in defaults.items()}
