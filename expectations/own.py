"""Judges a table's rows by a file of the user's own expectations, and reports numbers alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpack.errors import BadInput, HardpackError
from hardpack.failures import not_measured
from hardpack.home import file_name, trusted
from hardpack_expectations.checkpoint import ONE_CONTEXT, Verdict, context_of, exception, run
from hardpack_expectations.pages import OWN
from pydantic import BaseModel, Field, ValidationError

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from pyspark.sql import DataFrame

FOLDER, FOR_ALL = "expectations", "default"
COLUMNS = ("column", "column_A", "column_B", "column_list")
NUMBERS_ONLY = {"result_format": "BASIC", "partial_unexpected_count": 0}


class Suite(BaseModel):
    """The part of a suite's file, in Great Expectations' own format, that has to be there."""

    expectations: list[dict[str, Any]] = Field(min_length=1)


def file_of(home: Path, table: str) -> Path | None:
    """Returns the file of a table's own expectations, else the one for all tables, else None.

    Raises:
        BadInput: other users may write to the file.
    """
    for name in (file_name(table), FOR_ALL):
        path = home / FOLDER / f"{name}.json"
        if path.is_file():
            return trusted(path)
    return None


def judge_own(
    rows: DataFrame, file: Path, table: str, run_name: str, home: Path, about: Mapping[str, str]
) -> tuple[Verdict, list[str]]:
    """Judges a table's rows by a file of expectations.

    Args:
        rows: the table's rows, with all columns.
        file: JSON in the format of a suite of Great Expectations.
        table: its name.
        run_name: names the page's folder.
        home: folder for validation results and Data Docs.
        about: what the page says at its top beside the table, by heading.

    Returns:
        The verdict, and each expectation's severity. What was observed is told where it is a number, which may be a
        column's least or greatest; no other value of the table is in it, nor on the page.

    Raises:
        BadInput: the file cannot be used, or names a column that the table has not.
        Unavailable: the rows could not be read, so nothing is known.
    """
    read = _read(file, rows.columns)
    with ONE_CONTEXT:
        context = context_of(home, own=True)
        suite = context.suites.add(_suite(file, read))
        outcome = run(context, suite, rows, table, run_name, NUMBERS_ONLY)
        for result in outcome.results:
            if failure := exception([result]):
                raise _not_judged(file, table, result.expectation_config.type, failure)
            result.result = {name: value for name, value in (result.result or {}).items() if _is_number(value)}
        return outcome.keep(home, about, _observed), [r.expectation_config.severity.value for r in outcome.results]


def _read(file: Path, columns: Iterable[str]) -> Suite:
    try:
        suite = Suite.model_validate(json.loads(file.read_text()))
    except (ValueError, OSError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise BadInput(
            f'{file}: expected a suite of Great Expectations as JSON, {{"expectations": [{{"type": …, "kwargs": …}}]}} '
            f"({why}); mend or remove the file."
        ) from None
    column_names = set(columns)
    for one in suite.expectations:
        # a `kwargs` that is no mapping is refused later, when the expectation is made
        arguments = one["kwargs"] if isinstance(one.get("kwargs"), dict) else {}
        named = [value for key in COLUMNS if (value := arguments.get(key))]
        for name in (str(n) for value in named for n in (value if isinstance(value, list) else [value])):
            if name not in column_names:
                raise BadInput(
                    f"{file}: {one.get('type')} names column {name}, expected one of "
                    f"{', '.join(sorted(column_names))}; mend the file."
                )
    return suite


def _suite(file: Path, read: Suite) -> ExpectationSuite:
    from great_expectations import ExpectationSuite
    from great_expectations.exceptions import GreatExpectationsError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    suite = ExpectationSuite(OWN)
    for one in read.expectations:
        try:
            # the suite's own methods pass over a wrong expectation, or over a second one of a kind
            suite.expectations.append(ExpectationConfiguration(**one).to_domain_obj())
        except (GreatExpectationsError, ValueError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{file}: {one.get('type')} is no expectation of Great Expectations with these arguments "
                f"({_why(error)}); mend the file."
            ) from None
    return suite


def _why(error: Exception) -> str:
    """Returns in a few words what is wrong: the first of pydantic's errors, or the first line of another error."""
    first = error.errors()[0] if hasattr(error, "errors") else None
    return f"{first['loc'][0]}: {first['msg']}" if first else str(error).partition("\n")[0]


def _not_judged(file: Path, table: str, name: str, trace: str) -> HardpackError:
    """Returns the error for an expectation that raised one, without the text of that one, which may quote a row."""
    condition = re.search(r"\[([A-Z][A-Z_.]+)\]", trace)
    if not condition:
        return not_measured(table, trace)
    return BadInput(
        f"{file}: {name} cannot be judged on {table} ({condition[1]}), expected arguments that fit the column's type; "
        "mend the file."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _observed(result: Any) -> str:
    numbers: dict[str, float] = result.result
    if "unexpected_count" in numbers:
        asked, wrong = int(numbers.get("element_count", 0)), int(numbers["unexpected_count"])
        return f"{wrong:,} of {asked:,} rows are not as expected"
    return f"{numbers['observed_value']:,}" if "observed_value" in numbers else ""
