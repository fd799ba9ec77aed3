"""Each neighbour beside a pass, both ways round: it commits while the pass runs, and the pass while it runs.

Invariants 4 and 7. What is said here of each pair is the table in docs/operations.md.
"""

import threading
import time

import pytest
from hardpack import Conflict
from hardpack.table.columns import LogColumns, settings_of
from pyspark.sql.functions import udf

from tests.topics import T0, append, name_of, offsets, row, superseded_once

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(300)]
LATER = "TIMESTAMP '2100-01-01 00:00:00'"
ROW = "INSERT INTO {t} VALUES (0, %d, TIMESTAMP '2020-09-13 12:26:40', X'%s', 'v')"
INSERT, ANOTHER = ROW % (5, "61"), ROW % (6, "65")
MERGE = "MERGE INTO {t} USING (SELECT %d AS o WHERE %s) ON partition = 0 AND %s "
UPDATES = MERGE % (1, "%s", "offset = o") + "WHEN MATCHED THEN UPDATE SET value = 'w'"
# no value is so long; Iceberg's bounds cannot tell, so any file of the partition may match
INSERTS = MERGE % (5, "%s", "length(value) = o") + (
    "WHEN NOT MATCHED THEN INSERT (partition, offset, timestamp, key, value) "
    "VALUES (0, o, TIMESTAMP '2020-09-13 12:26:40', X'61', 'v')"
)
UPSERTS = INSERTS.replace("WHEN NOT", "WHEN MATCHED THEN UPDATE SET value = 'w' WHEN NOT")
BIN_PACK = "CALL hardpack.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"
PAST = "CALL hardpack.system.expire_snapshots(table => '{t}', older_than => " + LATER + ", retain_last => 1)"
AFTER, WITH_INSERT = [1, 2, 3, 4], [1, 3, 4, 5]


@pytest.fixture
def topic(catalog):
    """An offset 5 of the statements below would supersede 2."""
    return superseded_once(catalog)


def settle(hp, table):
    """Passes until nothing is left to do; nobody may have lost or doubled a row, nor may a guarantee be broken."""
    name = name_of(table)
    append(table.refresh(), {0: [row(9, "z")]})
    hp.clean_or_replan(hp.plan(name, now=T0, force=True))
    found = offsets(table)
    assert found[-1] == 9
    assert len(set(found)) == len(found)
    assert hp.verify(name, now=T0).success
    return found[:-1]


@pytest.mark.parametrize(
    ("statements", "yields", "left"),
    [
        pytest.param([INSERT], False, WITH_INSERT, id="append"),
        pytest.param([INSERTS % "true"], False, WITH_INSERT, id="MERGE that only inserts"),
        pytest.param([UPDATES % "true"], True, AFTER, id="MERGE that updates"),
        pytest.param(["UPDATE {t} SET value = 'w' WHERE offset = 1"], True, AFTER, id="UPDATE"),
        pytest.param(["UPDATE {t} SET value = 'w' WHERE offset = 3"], False, AFTER, id="UPDATE elsewhere"),
        pytest.param(["DELETE FROM {t} WHERE offset = 1"], True, [2, 3, 4], id="DELETE"),
        pytest.param(
            ["ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')",
             "DELETE FROM {t} WHERE offset = 1"], True, [2, 3, 4], id="row-level DELETE",
        ),
        pytest.param([BIN_PACK], True, AFTER, id="bin-pack"),
        pytest.param([INSERT, PAST], False, WITH_INSERT, id="expiry of the base"),
        pytest.param([INSERT, ANOTHER, PAST], True, [1, 3, 4, 5, 6], id="expiry of what came after the base"),
        pytest.param(["ALTER TABLE {t} ADD COLUMN more string"], False, AFTER, id="new column"),
        pytest.param(["ALTER TABLE {t} SET TBLPROPERTIES ('of.others'='1')"], False, AFTER, id="property"),
        pytest.param(["CALL hardpack.system.rewrite_manifests('{t}')"], False, AFTER, id="manifests"),
    ],
)  # fmt: skip
def test_they_commit_while_a_pass_runs(hp, spark, topic, meanwhile, statements, yields, left):
    name = name_of(topic)
    plan = hp.plan(name, now=T0)
    meanwhile(lambda: [spark.sql(s.format(t=f"hardpack.{name}")).collect() for s in statements])
    if yields:
        with pytest.raises(Conflict, match="not published"):
            hp.clean(plan)
        assert "hardpack.state" not in topic.refresh().properties
    else:
        hp.clean(plan)
    properties = topic.refresh().properties
    assert properties.get("of.others") == ("1" if "of.others" in statements[0] else None)
    assert settle(hp, topic) == left


@pytest.fixture
def held(spark, tmp_path):
    """A condition of SQL that holds its statement in the middle, and what lets it go on."""
    folder = str(tmp_path)

    def wait(_):
        from pathlib import Path
        from time import sleep

        Path(folder, "reading").touch()
        while not Path(folder, "go").exists():
            sleep(0.05)
        return True

    spark.udf.register("held", udf(wait, "boolean"))
    return tmp_path


def beside(spark, statement, held, action):
    """Run the action while the statement reads; the error that the statement ends with, if any."""
    failed = []

    def run():
        try:
            spark.sql(statement).collect()
        except Exception as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    end = time.monotonic() + 60
    while not (held / "reading").exists():
        assert time.monotonic() < end, f"the statement never read a row: {failed}"
        time.sleep(0.05)
    try:
        action()
    finally:
        (held / "go").touch()
        thread.join()
    return failed[0] if failed else None


@pytest.mark.parametrize(
    ("statement", "isolation", "fails", "left"),
    [
        pytest.param("DELETE FROM {t} WHERE offset = 1 AND held(offset)", "serializable", True, AFTER, id="DELETE"),
        pytest.param("UPDATE {t} SET value = 'w' WHERE offset = 1 AND held(offset)", "serializable", True, AFTER,
                     id="UPDATE"),
        pytest.param("UPDATE {t} SET value = 'w' WHERE offset = 3 AND held(offset)", "serializable", False, AFTER,
                     id="UPDATE elsewhere"),
        pytest.param(UPDATES % "held(1)", "serializable", True, AFTER, id="MERGE that updates"),
        pytest.param(INSERTS % "held(1)", "serializable", False, WITH_INSERT, id="MERGE that only inserts"),
        pytest.param(UPSERTS % "held(1)", "serializable", True, AFTER, id="MERGE that might update"),
        pytest.param(UPSERTS % "held(1)", "snapshot", False, WITH_INSERT, id="MERGE that might update, snapshot"),
        pytest.param("INSERT INTO {t} SELECT partition, offset + 5, timestamp, key, value FROM {t} "
                     "WHERE offset = 0 AND held(offset)", "serializable", False, WITH_INSERT, id="append"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_pass_commits_while_they_run(hp, spark, topic, held, statement, isolation, fails, left, mode):
    name = name_of(topic)
    with topic.refresh().transaction() as change:
        of_all = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        change.set_properties(of_all | {f"write.{verb}.isolation-level": isolation for verb in ("delete", "merge")})
    plan = hp.plan(name, now=T0)
    report = []
    failure = beside(spark, statement.format(t=f"hardpack.{name}"), held, lambda: report.append(hp.clean(plan)))
    assert report[0].snapshot is not None
    assert bool(failure) == fails, failure
    assert "Exception" in (failure or "Exception")
    assert settle(hp, topic) == left


def test_a_bin_pack_that_read_before_a_pass_fails(hp, topic):
    door = hp.jvm_table(name_of(topic))
    base = topic.refresh().current_snapshot().snapshot_id
    tasks = door.scan_tasks(base, LogColumns.of(topic.schema(), settings_of(topic)).log.among([0]))
    rewrite = door._java.newRewrite().validateFromSnapshot(base)
    hp.clean(hp.plan(name_of(topic), now=T0))
    left = topic.refresh().inspect.files()["file_path"].to_pylist()
    file = next(task.file() for path, task in tasks.items() if path not in left)
    with pytest.raises(Exception, match="Missing required files to delete"):
        rewrite.deleteFile(file).addFile(file).commit()
    assert offsets(topic) == AFTER
