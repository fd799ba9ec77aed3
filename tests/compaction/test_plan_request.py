"""What a plan was asked for is asked again once the table's mixed files are split."""

from dataclasses import fields

from hardpack.compaction.plan import FilesToSplit, Plan, PlanRequest
from hardpack.rules.model import DataFile
from hardpack.rules.settings import Settings


def test_nothing_that_was_asked_is_forgotten():
    asked = PlanRequest(7, [1], True, {"1": 5}, (0, 9), 8, "overdue")
    plain = PlanRequest(0)
    same = [field.name for field in fields(PlanRequest) if getattr(asked, field.name) == getattr(plain, field.name)]
    assert not same, "each field is to differ from its default"
    files = FilesToSplit.of([DataFile("f", 10, 1, 0, 0, 1000, 1000, 0, 0)], Settings(), asked)
    plan = Plan(
        table="t", uuid="u", snapshot=1, now=asked.now, clock=asked.clock, force=asked.force, settings=Settings(),
        merge_on_read=False, split=files, logs=(),
    )  # fmt: skip
    assert Plan.from_json(plan.to_json()).split.asked_again(plan) == asked


def test_the_usual_order_is_left_out_as_older_versions_do_not_know_it():
    files = FilesToSplit(files=1, bytes=10)
    plan = Plan(table="t", uuid="u", snapshot=1, now=1, force=False, settings=Settings(), split=files, logs=())
    assert "order" not in plan.to_json()
    other = plan.model_copy(update={"split": files.model_copy(update={"order": "overdue"})})
    assert '"order":"overdue"' in other.to_json()
    assert other.id != plan.id
