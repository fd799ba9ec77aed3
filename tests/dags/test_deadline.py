"""A policy that wants its runs to end in time: Airflow is told whom to call when one does not."""

import json

import pytest

from tests.dags.own_process import python

pytestmark = pytest.mark.dags
MADE = """
import json, sys
sys.path.append(sys.argv[1])
from airflow.serialization.serialized_objects import DagSerialization
from hardpack.policy import Policy
from hardpack_airflow.factory import compaction_dag
policy = Policy.model_validate({"name": "orders", "tables": ["a.b"], "deadline.ms": 90000, "on.deadline": sys.argv[2]})
try:
    dag = compaction_dag(policy)
except Exception as error:
    print("##" + json.dumps(str(error)))
else:
    # as it goes to the scheduler
    kept = DagSerialization.to_dict(dag)["dag"]["deadline"]
    print("##" + json.dumps([kept, type(dag.deadline[0].reference).__name__, dag.deadline[0].interval.total_seconds(),
                             dag.deadline[0].callback.path]))
"""


@pytest.fixture
def made(airflow_env, tmp_path):
    (tmp_path / "told.py").write_text("async def late(context): pass\n\n\ndef at_once(context): pass\n")
    return lambda place: json.loads(python(MADE, airflow_env[2], str(tmp_path), place).split("##")[1])


def test_a_run_that_is_late_since_it_was_queued_calls_the_policy_s_coroutine(made):
    kept, reference, seconds, path = made("told:late")
    assert len(kept) == 1
    assert (reference, seconds, path) == ("DagRunQueuedAtDeadline", 90, "told.late")


def test_what_the_triggerer_cannot_await_is_refused(made):
    assert made("told:at_once").startswith("policy orders: on.deadline names told:at_once, which is no coroutine")
    assert made("no.such:thing").startswith("policy orders: on.deadline names no.such:thing, which cannot be imported")
