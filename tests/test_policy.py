"""The policy file: what it may say, whose settings win, and what a wrong one is called; no JVM."""

import json
import re

import pytest
from hardpack import BadInput, Hardpack
from hardpack.cli.main import app
from hardpack.policy import Policies, Policy
from hardpack.policy.file import load_policies, policies_in_force, policy_file
from hardpack.rules.settings import origins, read_settings
from typer.testing import CliRunner

from tests.topics import T0, append, name_of, new_topic, row

FILE = """
policies:
  - name: orders
    tables: ["shop.orders", "shop.order_*"]
    schedule: "*/10 * * * *"
    order: overdue
    settings:
      min.cleanable.dirty.ratio: 0.2
      max.compaction.lag.ms: 3600000
  - name: rest
    tables: ["*.*"]
    schedule: ""
    unit.bytes: 1000000
"""


def test_a_table_is_of_the_first_policy_that_names_it(write_policies):
    found = load_policies(write_policies(FILE))
    assert [found.of(t).name for t in ("shop.orders", "shop.order_lines", "shop.customers")] == [
        "orders",
        "orders",
        "rest",
    ]
    assert found.settings("shop.orders") == {"min.cleanable.dirty.ratio": "0.2", "max.compaction.lag.ms": "3600000"}
    assert Policies(policies=found.policies[:1]).of("a.b") is None
    assert found.policies[1].schedule == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policies: [", "no YAML in line"),
        ("- a", "the file: "),
        ("policies: []", "policies: "),
        ("policies: [7]", "policies.0: "),
        ("policies: [{name: a, tables: [x.y], owner: 2026-13-45}]", "YAML takes a value for what it cannot be"),
        ("{policies: [{name: a, tables: [x.y]}], more: 1}", "more: "),
        ("policies: [{name: a b, tables: [x.y]}]", "policies.0.name: "),
        ("policies: [{name: a, tables: []}]", "policies.0.tables: "),
        ("policies: [{name: a, tables: [x.y], order: random}, {tables: [x.z]}]", "policies.1.name: "),
        ("policies: [{name: maintenance, tables: [x.y]}]", "give the policy another name"),
        ("policies: [{name: a, tables: [x.y]}, {name: a, tables: [x.y]}]", "two policies are called 'a'"),
        ("policies: [{name: a, tables: [x.y], catalog: 7}]", "policies.0.catalog: "),
        ("policies: [{name: a, tables: [x.y], catalog: b}, {name: c, tables: [x.y]}]", "policy 'c' names no catalog"),
        ("policies: [{name: a, tables: [x.y], order: no}, {name: a, tables: [x.y]}]", "two policies are called 'a'"),
    ],
)
def test_a_file_that_leaves_open_whose_a_table_is_is_refused_in_one_sentence(write_policies, text, words):
    path = write_policies(text)
    with pytest.raises(BadInput, match=re.escape(words)) as refusal:
        policies_in_force()
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


WRONG = [
    ("sched: x", "policies.0.sched: "),
    ("7: x", "policies.0.7: "),
    ("order: random", "policies.0.order: "),
    ("unit.bytes: 0", "policies.0.unit.bytes: "),
    ("unit.bytes: 9223372036854775808", "policies.0.unit.bytes: "),
    ("unit_bytes: 0", "policies.0.unit_bytes: "),
    ("settings: {segment.byte: 7}", "policy's setting segment.byte is not a"),
    ("settings: {min.cleanable.dirty.ratio: 2}", "ratio is '2', expected"),
    ("settings: [b]", "policies.0.settings: "),
    ("schedule: '61 * * * *'", "'61 * * * *' is no cron expression"),
    ("schedule: '0 0 31 2 *'", "'0 0 31 2 *' names no day that there is"),
    ("schedule: '0 0 1 1 * 0 2027'", "'0 0 1 1 * 0 2027' names years, which Airflow does not follow"),
    ("timezone: Berlin", "'Berlin' is no time zone"),
    ("units.per.run: 2000", "policies.0.units.per.run: "),
    ("on.failure: print", "policies.0.on.failure: "),
    ("driver.memory: much", "policies.0.driver.memory: "),
    ("deadline.ms: 5", "deadline.ms and on.deadline go together, and on.deadline is missing"),
    ("on.deadline: 'a.b:c'", "deadline.ms and on.deadline go together, and deadline.ms is missing"),
    ("deadline.ms: -1, on.deadline: 'a.b:c'", "policies.0.deadline.ms: "),
    ("readers: [{table: x.y, name: r}]", "reader r of x.y needs a group or a checkpoint, one of them"),
    ("readers: [{table: x.y, name: r, group: b/g/t, checkpoint: c}]", "needs a group or a checkpoint, one of them"),
    ("readers: [{table: x.y, name: r, checkpoint: c, command.config: f}]", "command.config goes with a group"),
    ("readers: [{table: x.y, name: r s, checkpoint: c}]", "policies.0.readers.0.name: "),
    ("readers: [{table: x.z, name: r, checkpoint: c}]", "reads x.z, which is none of the tables of policy a"),
    (
        "readers: [{table: x.y, name: r, group: a/a/a}, {table: x.y, name: r, group: b/b/b}]",
        "reader r of x.y is given twice",
    ),
    ("retry.delay.ms: 99999999999999999999", "policies.0.retry.delay.ms: "),
    (f"tags: [{'x' * 101}]", "policies.0.tags.0: "),
    ("on: x", "policies.0.True: "),
    ("2026-01-01: x", "policies.0.2026-01-01: "),
    ("readers: [{table: 'x.*', name: r, checkpoint: c}]", "policies.0.readers.0.table: "),
    ("readers: [{table: x.y, name: r, group: g}]", "policies.0.readers.0.group: "),
    ("order: random, schedule: x, settings: {segment.byte: 7}", "policies.0.order: "),
    ("order: random, schedule: x", "'x' is no cron expression"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_wrong_policy_keeps_its_tables_and_holds_up_no_other(write_policies, wrong, words):
    path = write_policies(
        f"policies: [{{name: a, tables: [x.y], owner: me, {wrong}}}, {{name: rest, tables: ['*.*']}}]"
    )
    found = policies_in_force()
    mine = found.of("x.y")
    assert (mine.name, mine.owner, mine.order, mine.schedule) == ("a", "me", "filthiest", "0 * * * *")
    (problem,) = found.problems()
    assert words in problem
    assert problem.startswith(str(path))
    assert "\n" not in problem
    assert found.of("x.z").name == "rest"
    assert found.settings("x.z") == {}


@pytest.mark.parametrize("schedule", ["@daily", "0 0 1 1 *", "0 0 29 2 *", "0 0 1 1 * 0", ""])
def test_any_time_that_there_will_be_is_a_schedule(schedule):
    assert Policy(name="a", tables=["x.y"], schedule=schedule).schedule == schedule


def test_a_reader_is_named_by_the_policy_of_its_table(write_policies):
    reader = "{table: a.b, name: r, checkpoint: c}"
    write_policies(f"policies: [{{name: first, tables: [a.b]}}, {{name: rest, tables: ['*.*'], readers: [{reader}]}}]")
    (problem,) = policies_in_force().problems()
    assert "policies.1.readers: a.b is a table of policy first, which comes first; name the reader r there" in problem
    assert policies_in_force().of("a.b").problem == ""
    write_policies(f"policies: [{{name: first, tables: [a.b], readers: [{reader}]}}]")
    (doubt,) = policies_in_force().doubts()
    assert "deletes wait for them only in tables that say horizon.readers=wait themselves" in doubt
    write_policies(
        f"policies: [{{name: first, tables: [a.b], readers: [{reader}], settings: {{horizon.readers: wait}}}}]"
    )
    assert policies_in_force().doubts() == []


def test_a_file_that_did_not_change_is_read_once(write_policies, monkeypatch):
    path = write_policies(FILE)
    assert load_policies(path) is load_policies(path)
    write_policies(FILE.replace("rest", "others"))
    assert [p.name for p in load_policies(path).policies] == ["orders", "others"]


def test_a_catalog_that_no_policy_names_is_told(catalog, write_policies, caplog):
    write_policies("policies: [{name: far, catalog: far, tables: ['*.*']}]")
    assert Hardpack(catalog).policies.policies == ()
    assert f"no policy is for catalog {catalog.name}, they name far" in caplog.text


def test_a_policy_of_another_catalog_counts_for_nothing(catalog, write_policies):
    table = new_topic(catalog)
    append(table, {0: [row(0, "a"), row(1, "a")]})
    write_policies(
        "policies: [{name: far, catalog: far, tables: ['*.*'], settings: {min.cleanable.dirty.ratio: 0.1}}, "
        f"{{name: near, catalog: {catalog.name}, tables: ['*.*'], settings: {{min.cleanable.dirty.ratio: 0.9}}}}]"
    )
    hp = Hardpack(catalog)
    assert hp.policies.of(name_of(table)).name == "near"
    assert hp.plan(name_of(table), now=T0).settings.min_cleanable_dirty_ratio == 0.9
    found = policies_in_force()
    assert (found.catalogs, found.doubts()) == (["far", catalog.name], [])
    assert found.in_catalog("nowhere").of(name_of(table)) is None


def test_a_table_of_a_wrong_policy_is_refused_and_others_are_worked_on(catalog, write_policies):
    mine, other = new_topic(catalog), new_topic(catalog)
    for table in (mine, other):
        append(table, {0: [row(0, "a"), row(1, "a")]})
    fine = f"policies: [{{name: a, tables: [{name_of(mine)}]}}, {{name: rest, tables: ['*.*']}}]"
    write_policies(fine)
    hp = Hardpack(catalog)
    before = hp.policy_text(name_of(mine))
    write_policies(fine.replace("]}", "], ordr: overdue}", 1))
    hp = Hardpack(catalog)
    assert hp.policy_text(name_of(mine)) != before
    assert hp.plan(name_of(other), now=T0).table == name_of(other)
    for verb in (hp.plan, hp.status, hp.pause, hp.adopt):
        with pytest.raises(BadInput, match=r"policies\.0\.ordr"):
            verb(name_of(mine))


def test_the_command_says_what_is_wrong_of_each_policy(write_policies):
    write_policies(
        "policies: [{name: a, tables: [x.y], ordr: b}, {name: b, tables: [x.z]}, {name: c, tables: [z.z], pool: ''}]"
    )
    said = CliRunner().invoke(app, ["policies", "--json"])
    assert said.exit_code == 2
    assert [p["name"] for p in json.loads(said.stdout)] == ["b"]
    assert [line.split(": ")[2] for line in said.stderr.splitlines()] == ["policies.0.ordr", "policies.2.pool"]
    assert CliRunner().invoke(app, ["policies", "x.z"]).exit_code == 0
    one = CliRunner().invoke(app, ["policies", "x.y"])
    assert "policies.0.ordr" in str(one.exception)
    of_runs = CliRunner().invoke(app, ["policies", "z.z"])
    assert "policies.2.pool" in str(of_runs.exception)
    none = CliRunner().invoke(app, ["policies", "z.none"])
    assert "names this table" in str(none.exception)


def test_without_a_file_there_is_no_policy(tmp_path, monkeypatch):
    monkeypatch.delenv("HARDPACK_POLICIES", raising=False)
    monkeypatch.setenv("HARDPACK_HOME", str(tmp_path))
    assert policies_in_force() is None
    (tmp_path / "hardpack.yaml").write_text(FILE)
    assert policy_file() == tmp_path / "hardpack.yaml"
    monkeypatch.setenv("HARDPACK_POLICIES", str(tmp_path / "none.yaml"))
    with pytest.raises(BadInput, match=r"cannot be read .*HARDPACK_POLICIES"):
        policies_in_force()


def test_a_tables_own_property_wins_over_its_policy_and_that_over_the_default(catalog):
    silent, own = new_topic(catalog), new_topic(catalog, min_cleanable_dirty_ratio=0.9)
    for table in (silent, own):
        for offset in (0, 1):
            append(table, {0: [row(offset, "a")]})
    policies = Policies.model_validate(
        {
            "policies": [
                {"name": "all", "tables": ["t.*"], "settings": {"min.cleanable.dirty.ratio": 0.8, "segment.bytes": 99}}
            ]
        }
    )
    hp = Hardpack(catalog, policies=policies)
    plans = [hp.plan(name_of(t), now=T0).settings for t in (silent, own)]
    assert [(p.min_cleanable_dirty_ratio, p.segment_bytes) for p in plans] == [(0.8, 99), (0.9, 99)]
    assert hp.adopt(name_of(silent), dry_run=True).min_cleanable_dirty_ratio == 0.8
    paused = hp.pause(name_of(silent))
    assert [s.paused for s in paused.values()] == [1]
    assert hp.status(name_of(silent), now=T0)[0].reason == "paused"


def test_a_contradiction_between_table_and_policy_names_both(catalog):
    table = new_topic(catalog, min_compaction_lag_ms=5000)
    policies = Policies.model_validate(
        {"policies": [{"name": "all", "tables": ["t.*"], "settings": {"max.compaction.lag.ms": 1000}}]}
    )
    with pytest.raises(BadInput, match="of the table or its policy"):
        Hardpack(catalog, policies=policies).plan(name_of(table), now=T0)


def test_the_most_overdue_log_goes_first_when_asked(catalog):
    table = new_topic(catalog, max_compaction_lag_ms=1, min_cleanable_dirty_ratio=0)
    append(table, {0: [row(0, "a")], 1: [row(0, "a"), row(1, "b" * 99)]}, at=T0)
    append(table, {0: [row(1, "a")], 1: [row(2, "a")]}, at=T0 - 10_000)
    append(table, {1: [row(3, "a")]}, at=T0 - 20_000)
    append(table, {0: [row(2, "a")], 1: [row(4, "a")]}, at=T0)

    def order(how):
        policies = {"policies": [{"name": "all", "tables": ["t.*"], "order": how}]}
        plan = Hardpack(catalog, policies=Policies.model_validate(policies)).plan(name_of(table), now=T0)
        return [(p.partition, p.overdue_ms) for p in plan.logs]

    assert [p for p, _ in order("overdue")] == [1, 0]
    assert [late for _, late in order("overdue")] == sorted((late for _, late in order("overdue")), reverse=True)
    assert [p for p, _ in order("filthiest")] == [0, 1]


def test_the_command_shows_the_policies(write_policies):
    write_policies(FILE)
    said = CliRunner().invoke(app, ["policies"])
    assert said.exit_code == 0
    assert "*/10 * * * *" in said.stdout
    assert "by hand" in said.stdout
    one = json.loads(CliRunner().invoke(app, ["policies", "shop.orders", "--json"]).stdout)
    assert [p["name"] for p in one] == ["orders"]
    assert one[0]["unit.bytes"] == 100 * 1024**3
    schema = json.loads(CliRunner().invoke(app, ["policies", "--schema"]).stdout)
    assert set(schema["properties"]) == {"policies"}


def locking(locked, **settings):
    policy = {"name": "all", "tables": ["t.*"], "settings": settings, "locked": locked}
    return Policies.model_validate({"policies": [policy]})


def test_for_what_a_policy_locks_the_tables_own_properties_count_for_nothing(catalog):
    table = new_topic(
        catalog,
        cleanup_policy="delete",
        column_key="value",
        column_value="key",
        min_cleanable_dirty_ratio=0.9,
        segment_bytes="no number",
    )
    append(table, {0: [row(0, "a")]})

    def settings(policies):
        return Hardpack(catalog, policies=policies).plan(name_of(table), now=T0).settings

    with pytest.raises(BadInput, match=r"segment\.bytes is 'no number'"):
        settings(locking(["cleanup.policy", "column.*"]))
    found = settings(locking(["cleanup.policy", "column.*", "segment.bytes"], **{"segment.bytes": "99"}))
    assert (found.cleanup_policy, found.column_key, found.segment_bytes) == ("compact", "key", 99)
    assert found.min_cleanable_dirty_ratio == 0.9
    assert settings(locking(True)).min_cleanable_dirty_ratio == 0.5
    with table.transaction() as change:
        change.set_properties({"hardpack.segment.bytes": "50", "write.target-file-size-bytes": "60"})
    assert settings(locking(False)).segment_bytes == 50
    assert settings(locking(["segment.bytes"])).segment_bytes == 512 * 1024 * 1024
    assert origins(table.refresh().properties, locking(["segment.*"]).settings(name_of(table)))["segment.bytes"] == (
        "default"
    )


@pytest.mark.parametrize(
    ("locked", "free"), [(["log.*"], "0.9"), (["log.retention.*", "log.cleanup.policy"], "0.9"), (["*.hours"], None)]
)
def test_a_brokers_names_lock_what_they_stand_for(locked, free):
    """Settings may be given by these names too, and whoever locks `log.*` means them."""
    policy = locking(locked, **{"log.cleanup.policy": "compact", "log.retention.hours": "24"}).policies[0]
    own = {"hardpack.cleanup.policy": "delete", "hardpack.retention.ms": "1", "hardpack.null.keys": "refuse"}
    found = read_settings("t.a", own, policy.given)
    assert found.retention_ms == 24 * 3_600_000
    assert found.cleanup_policy == ("compact" if free else "delete")
    assert found.null_keys == "refuse"


def test_nobody_sets_a_locked_setting_by_adopting(catalog):
    table = new_topic(catalog)
    hp = Hardpack(catalog, policies=locking(["column.*"]))
    with pytest.raises(BadInput, match=r"column\.key is locked by the table's policy"):
        hp.adopt(name_of(table), {"column.key": "value"})
    assert hp.adopt(name_of(table), {"column.key": "", "late.rows": "refuse"}).late_rows == "refuse"


def test_a_lock_is_not_got_round_by_a_fields_own_name(catalog):
    table = new_topic(catalog)
    hp = Hardpack(catalog, policies=locking(["null.keys"]))
    with pytest.raises(BadInput, match=r"hardpack\.null_keys is not a setting; remove it, or write it null\.keys"):
        hp.adopt(name_of(table), {"null_keys": "drop"})
    with table.transaction() as change:
        change.set_properties({"hardpack.null_keys": "drop"})
    with pytest.raises(BadInput, match=r"hardpack\.null_keys is not a setting"):
        hp.plan(name_of(table), now=T0)
    with pytest.raises(ValueError, match=r"policy's setting min_cleanable_dirty_ratio is not a setting"):
        locking(False, min_cleanable_dirty_ratio="1")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"locked": ["colum.*"]}, "'colum.*' is no setting and matches none"),
        ({"locked": "column.*"}, "policies.0.locked"),
        ({"name": "maintenance"}, "hardpack_maintenance is a DAG of hardpack's own"),
    ],
)
def test_a_lock_or_name_that_cannot_be_meant_is_refused(write_policies, given, words):
    write_policies(json.dumps({"policies": [{"name": "a", "tables": ["x.y"], **given}]}))
    with pytest.raises(BadInput, match=re.escape(words)):
        policies_in_force().settings("x.y")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("log.cleaner.min.cleanable.ratio: 0.1", {"min.cleanable.dirty.ratio": 0.1}),
        ("log.cleaner.min.compaction.lag.ms: 5", {"min.compaction.lag.ms": 5}),
        ("log.cleaner.max.compaction.lag.ms: 7", {"max.compaction.lag.ms": 7}),
        ("log.cleaner.delete.retention.ms: 9", {"delete.retention.ms": 9}),
        ("log.segment.bytes: 1073741824", {"segment.bytes": 2**30}),
        ("log.retention.bytes: 77", {"retention.bytes": 77}),
        ("log.cleanup.policy: 'compact, delete'", {"cleanup.policy": "compact,delete"}),
        ("log.retention.hours: 168", {"retention.ms": 168 * 3_600_000}),
        ("{log.retention.hours: 168, log.retention.minutes: 10}", {"retention.ms": 600_000}),
        ("{log.retention.minutes: 10, log.retention.ms: -1}", {"retention.ms": -1}),
        ("log.retention.hours: -2", {"retention.ms": -1}),
        ("log.retention.hours: 9223372036854775807", {"retention.ms": 2**63 - 1}),
        ("log.roll.hours: 168", {"segment.ms": 168 * 3_600_000}),
        ("{log.roll.hours: 168, log.roll.ms: 7}", {"segment.ms": 7}),
        ("{log.segment.bytes: 20, segment.bytes: 30}", {"segment.bytes": 30}),
    ],
)
def test_a_brokers_settings_are_taken_by_their_names(write_policies, given, found):
    settings = given if given.startswith("{") else f"{{{given}}}"
    write_policies(f"policies: [{{name: a, tables: ['*'], settings: {settings}}}]")
    told = read_settings("t", {}, policies_in_force().settings("a.b")).model_dump(by_alias=True)
    assert {name: told[name] for name in found} == found


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("log.cleaner.backoff.ms: 15000", "log.cleaner.backoff.ms is no setting of a log: the policy's schedule"),
        ("log.retention.hours: soon", "log.retention.hours is 'soon', expected a whole number"),
        ("log.flush.interval.ms: 1", "log.flush.interval.ms is not a setting"),
    ],
)
def test_a_brokers_setting_that_means_nothing_here_is_refused(write_policies, given, sentence):
    path = write_policies(f"policies: [{{name: a, tables: ['*'], settings: {{{given}}}}}]")
    with pytest.raises(BadInput, match=re.escape(sentence)):
        load_policies(path).settings("a.b")
