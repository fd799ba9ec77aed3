"""Runs a suite on the evidence and renders the result: one validation, one page of Data Docs."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from hardpack.errors import BadInput
from hardpack.failures import not_measured
from hardpack.home import file_name
from hardpack_expectations.index import write_index

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

SUITES = Path(__file__).parent
RESULTS, KEPT = "results", "kept_results"
NONE: Mapping[str, str] = MappingProxyType({})
ONE_CONTEXT = Lock()
"""A lock from the making of a context to its page: Great Expectations knows one context in a process, the last made."""


@dataclass(frozen=True)
class Verdict:
    """What a suite found: overall, per expectation, and the page that shows it."""

    success: bool
    results: list[dict[str, Any]]
    page: str

    @property
    def failed(self) -> list[str]:
        """Names of the expectations that failed."""
        return [r["expectation"] for r in self.results if not r["success"]]

    @property
    def broken(self) -> tuple[str, ...]:
        """Partitions in which an expectation failed."""
        return tuple(sorted({str(p["partition"]) for r in self.results for p in r["partitions"] if p["violations"]}))


def validate(
    evidence: DataFrame | pa.Table,
    suite: str,
    asset: str,
    run_name: str,
    logs: list[dict[str, Any]],
    home: Path,
    about: Mapping[str, str] = NONE,
) -> Verdict:
    """Validates the evidence of the logs by a suite, and writes the page of the result.

    Args:
        evidence: rows before and after the pass; see `hardpack.spark.evidence`.
        suite: name of a suite in this folder.
        asset: the table's name.
        run_name: names the page's folder: table, partitions and run.
        logs: what `measure` takes.
        home: folder for validation results and Data Docs.
        about: what the page says at its top beside the table, by heading.

    Raises:
        BadInput: a file of the evidence is missing or damaged.
        Unavailable: the evidence could not be read for another reason, so nothing is known of the guarantees.
    """
    import hardpack_expectations.guarantees  # noqa: F401  registers the classes that the suites name
    import pandas as pd
    from hardpack_expectations.measure import measure

    try:
        # the rows are counted here, as Great Expectations hashes, value by value, whatever rows it is given
        numbers = pd.DataFrame(measure(evidence, logs))
    except Exception as error:
        raise not_measured(asset, str(error).strip() or "no message") from error
    with ONE_CONTEXT:
        context = context_of(home)
        outcome = run(context, context.suites.get(suite), numbers, asset, run_name, "SUMMARY")
        if failure := exception(outcome.results):
            raise not_measured(asset, failure)
        return outcome.keep(home, about, lambda result: (result.result or {}).get("observed_value", ""))


@dataclass(frozen=True)
class Outcome:
    """A suite's results, which are not yet written anywhere."""

    context: Any
    identifier: Any
    result: Any
    asset: str

    @property
    def results(self) -> list[Any]:
        """A result for each expectation; Great Expectations brings those of one column together."""
        return list(self.result.results)

    def keep(self, home: Path, about: Mapping[str, str], observed: Callable[[Any], str]) -> Verdict:
        """Writes the results and their page.

        Args:
            home: folder for validation results and Data Docs.
            about: what the page says at its top beside the table, by heading.
            observed: returns in words what the result of an expectation observed.
        """
        from great_expectations.data_context.types.resource_identifiers import ExpectationSuiteIdentifier
        from hardpack_expectations.pages import ABOUT

        context, identifier = self.context, self.identifier
        self.result.meta[ABOUT] = {"Table": self.asset, **about}
        suite = ExpectationSuiteIdentifier(self.result.suite_name)
        try:
            for store in (RESULTS, KEPT):
                context.stores[store].set(identifier, self.result)
            context.build_data_docs(resource_identifiers=[identifier, suite], build_index=False)
        except PermissionError as error:
            raise BadInput(
                f"{error.filename or home} cannot be written, where the pages of Data Docs lie; let HARDPACK_HOME be a "
                "folder of yours, with all that is in it."
            ) from None
        try:
            write_index(home / "data_docs", time.time())
        except OSError as error:  # the page is there, and the table is what matters
            log.warning("the index of Data Docs was not written: %s", error)
        urls = context.get_docs_sites_urls(resource_identifier=identifier)
        results = [
            {
                "expectation": r.expectation_config.type,
                "success": bool(r.success),
                "observed": observed(r),
                "partitions": (r.result or {}).get("details", {}).get("partitions", []),
            }
            for r in self.results
        ]
        page = unquote(urlparse(urls[0]["site_url"]).path) if urls else ""
        return Verdict(bool(self.result.success), results, page)


def run(
    context: Any,
    suite: Any,
    rows: DataFrame | pd.DataFrame,
    asset: str,
    run_name: str,
    result_format: str | dict[str, Any],
) -> Outcome:
    """Runs a suite of a context on rows; see `validate` for the arguments."""
    import great_expectations as gx
    import pandas as pd

    sources = context.data_sources
    in_process = isinstance(rows, pd.DataFrame)
    source = sources.add_pandas("hardpack") if in_process else sources.add_spark("hardpack", persist=False)
    batch = source.add_dataframe_asset(file_name(asset)).add_batch_definition_whole_dataframe("logs")
    definition = gx.ValidationDefinition(name=suite.name, data=batch, suite=suite)
    checkpoint = gx.Checkpoint(
        name=suite.name,
        validation_definitions=[context.validation_definitions.add(definition)],
        result_format=result_format,
    )
    outcome = context.checkpoints.add(checkpoint).run(
        batch_parameters={"dataframe": rows},
        run_id=gx.RunIdentifier(run_name=_named(run_name)),
    )
    identifier, result = next(iter(outcome.run_results.items()))
    return Outcome(context, identifier, result, asset)


def context_of(home: Path, own: bool = False) -> Any:
    """Returns a context of Great Expectations over hardpack's folders.

    Args:
        home: folder for validation results and Data Docs.
        own: whether the suite is made in memory, as a user's own is; else suites are read from this folder.
    """
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral", project_config=_config(home, own))
    context.variables.progress_bars = {"globally": False}
    return context


def _named(text: str) -> str:
    """Returns a text as part of a path, with an underscore for other characters."""
    return re.sub(r"[^\w.-]+", "_", text)


def exception(results: Any) -> str:
    """Returns the error that was raised while measuring, else empty.

    Great Expectations catches such an error and calls the guarantee broken.
    """
    for result in results:
        info = result.exception_info or {}
        # `exception_info` is the information itself, or has it by the id of the metric that failed
        for entry in (info, *(v for v in info.values() if isinstance(v, dict))):
            if entry.get("raised_exception"):
                # Spark begins the message of a Python worker's error with an empty line
                return str(entry.get("exception_message") or "").strip() or "no message"
    return ""


def _config(home: Path, suites_in_memory: bool) -> Any:
    from great_expectations.data_context.types.base import DataContextConfig

    def files(folder: Path) -> dict[str, Any]:
        return {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder),
            "suppress_store_backend_id": True,
        }

    def in_memory(cls: str) -> dict[str, Any]:
        return {"class_name": cls, "store_backend": {"class_name": "InMemoryStoreBackend"}}

    def ours(cls: str) -> dict[str, str]:
        return {"module_name": "hardpack_expectations.pages", "class_name": cls}

    return DataContextConfig(
        stores={
            "suites": in_memory("ExpectationsStore")
            if suites_in_memory
            else {"class_name": "ExpectationsStore", "store_backend": files(SUITES)},
            # Great Expectations looks through all results of its store for each page, so its store has this one only
            RESULTS: in_memory("ValidationResultsStore"),
            KEPT: {"class_name": "ValidationResultsStore", "store_backend": files(home / "validations")},
            "checkpoint_store": in_memory("CheckpointStore"),
            "validation_definition_store": in_memory("ValidationDefinitionStore"),
        },
        expectations_store_name="suites",
        validation_results_store_name=RESULTS,
        checkpoint_store_name="checkpoint_store",
        data_docs_sites={
            "local": {
                "class_name": "SiteBuilder",
                "show_how_to_buttons": False,
                "store_backend": files(home / "data_docs"),
                "site_section_builders": {
                    "expectations": {"view": ours("PageView")},
                    # without this filter a run with `profiling` in its name, such as a table's, has no page
                    "validations": {"view": ours("PageView"), "renderer": ours("ResultsPage"), "run_name_filter": {}},
                    "profiling": "none",
                },
            }
        },
        plugins_directory=str(SUITES / "data_docs"),
        analytics_enabled=False,
    )
