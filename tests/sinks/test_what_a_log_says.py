"""A commit that is tried again is no failure, and one that is given up is one, whatever came before. No JVM."""

from tests.sinks.topic import failures_in

RETRIED = "WARN Tasks: Retrying task after failure: sleepTimeMs=109 Cannot commit"
THROWN = "org.apache.iceberg.exceptions.CommitFailedException: Cannot commit"


def test_a_commit_that_is_tried_again_is_no_failure():
    assert failures_in("\n".join([RETRIED, THROWN, "\tat SnapshotProducer", RETRIED, THROWN])) == ([], 2)


def test_the_last_try_is_one():
    given_up = "WARN Coordinator - Commit failed, will try again next cycle"
    assert failures_in("\n".join([RETRIED, THROWN, "\tat Tasks", given_up, THROWN])) == ([given_up, THROWN], 1)
