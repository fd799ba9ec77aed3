"""A user's own expectations, beside the guarantees: what fails, what is said, and that no value is told."""

import json
from pathlib import Path

import pytest
from hardpack import Hardpack
from hardpack.compaction.own_expectations import with_own_expectations
from hardpack.compaction.report import VerifyReport
from hardpack.compaction.verify import must_hold
from hardpack.errors import BadInput, ExpectationFailed

from tests.topics import append, name_of, new_topic, row

pytestmark = pytest.mark.spark

SECRET = "swordfish"


@pytest.fixture
def own(catalog, home):
    """A new table of four rows, one without a value: its name, and what writes a file of expectations."""
    table = new_topic(catalog)
    append(table, {0: [row(n, f"k{n}", None if n == 2 else SECRET) for n in range(3)], 1: [row(0, "z", SECRET)]})
    name = name_of(table)
    folder = home / "expectations"
    folder.mkdir(exist_ok=True)

    def write(*expectations, file=f"{name}.json"):
        (folder / file).write_text(json.dumps({"name": "mine", "expectations": expectations}))

    yield name, write
    for file in folder.iterdir():
        file.unlink()


def values(kind, column="value", severity="critical", **more):
    return {"type": f"expect_column_{kind}", "kwargs": {"column": column, **more}, "severity": severity}


def test_each_is_told_in_numbers(hp, own):
    name, write = own
    write(
        values("values_to_not_be_null", mostly=0.7),
        values("values_to_not_be_null", severity="warning"),
        values("values_to_not_be_in_set", "key", "warning", value_set=["z"]),
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1, "max_value": 9}},
    )
    report = must_hold(hp.verify(name))
    wrong = "1 of 4 rows are not as expected"
    assert sorted((one.severity, one.success, one.observed) for one in report.own) == [
        ("critical", True, wrong), ("critical", True, "4"), ("warning", False, wrong), ("warning", False, wrong),
    ]  # fmt: skip
    assert (report.success, report.failed_own) == (True, [])


def test_a_critical_one_fails_a_task_and_not_the_guarantees(hp, own):
    name, write = own
    write(values("values_to_not_be_null"))
    report = hp.verify(name)
    assert (report.success, report.passes_hold) == (True, True)
    with pytest.raises(ExpectationFailed, match=r"your own expectations expect_column_values_to_not_be_null failed"):
        must_hold(report)


def test_only_the_rows_of_the_logs_that_are_verified_count(hp, own):
    name, write = own
    write(values("values_to_not_be_null"))
    assert [one.success for one in hp.verify(name, partitions=[1]).own] == [True]


def test_one_file_is_for_all_tables_and_a_tables_own_comes_first(hp, own):
    name, write = own
    write(values("values_to_not_be_null"), file="default.json")
    assert [one.success for one in hp.verify(name).own] == [False]
    write(values("values_to_not_be_null", "key"))
    assert [one.success for one in hp.verify(name).own] == [True]


def test_no_value_is_kept(hp, own, home, caplog):
    name, write = own
    write(
        values("values_to_be_in_set", value_set=["other"]),
        values("distinct_values_to_be_in_set", value_set=["other"]),
        values("most_common_value_to_be_in_set", value_set=["other"]),
    )
    report = hp.verify(name)
    assert [one.success for one in report.own] == [False, False, False]
    kept = [path for path in (home / "validations").rglob("*.json") if name in str(path)]
    assert kept
    said = report.model_dump_json() + caplog.text + "".join(path.read_text() for path in kept)
    assert SECRET not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected a suite of Great Expectations as JSON"),
        ('{"expectations": []}', "at least 1 item"),
        ('{"expectations": [{"type": "expect_miracles"}]}', "expect_miracles is no expectation of Great Expectations"),
        (
            '{"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "nope"}}]}',
            "names column nope, expected one of",
        ),
        (
            '{"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": ["value"]}]}',
            "is no expectation of",
        ),
        (
            '{"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"colum": "value"}}]}',
            "is no expectation of Great Expectations with these arguments",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(hp, own, home, text, said):
    name, _ = own
    (home / "expectations" / f"{name}.json").write_text(text)
    with pytest.raises(BadInput, match=said):
        hp.verify(name)


def test_a_file_that_others_may_write_is_not_obeyed(hp, own, home):
    name, write = own
    write(values("values_to_not_be_null"))
    (home / "expectations" / f"{name}.json").chmod(0o666)
    with pytest.raises(BadInput, match="writable by nobody else"):
        hp.verify(name)


def test_the_page_says_whose_they_are(catalog, spark, home, own):
    name, write = own
    write(values("values_to_not_be_null"), values("values_to_match_regex", severity="warning", regex="sword"))
    page = Path(Hardpack(catalog, spark, home).verify(name).data_docs[-1]).read_text()
    assert "AN EXPECTATION OF YOUR OWN FAILED" in page
    assert f"<td>{name}.json</td>" in page
    assert SECRET not in page


def test_a_wrong_file_hides_no_broken_guarantee(hp, own, home):
    name, _ = own
    (home / "expectations" / f"{name}.json").write_text("{")
    broken = VerifyReport(table=name, now=1, success=False, passes_hold=False)
    assert with_own_expectations(hp.session(name), broken, None) == broken
