"""The expectations: each judges numbers of the one shared metric and shows them per partition, never a key or value."""

from __future__ import annotations

import html
from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render import LegacyRendererType
from great_expectations.render.components import (
    LegacyDiagnosticRendererType,
    RenderedStringTemplateContent,
    RenderedTableContent,
)
from great_expectations.render.renderer.renderer import renderer
from hardpack.rules.causes import removed_by_cause

METRIC = "table.log_guarantees"


class LogGuarantees(TableMetricProvider):
    """The metric that gives all expectations the numbers of `measure`; the batch has a row for each log."""

    metric_name = METRIC

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, metrics: Any,
        runtime_configuration: Any,
    ) -> list[dict[str, Any]]:  # fmt: skip
        logs, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        numbers: list[dict[str, Any]] = logs.to_dict("records")
        return numbers


class LogExpectation(BatchExpectation):
    """A guarantee, which holds when no log has a violation of it."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    title: ClassVar[str] = ""
    shown: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def violations(cls, log: dict[str, Any]) -> int:
        """Returns how often one log breaks the guarantee, from the metric's numbers."""
        return sum(log[name] for name in cls.shown)

    @classmethod
    def numbers(cls, log: dict[str, Any]) -> dict[str, int]:
        """Returns the numbers that the page shows of one log, by name."""
        return {name: log[name] for name in cls.shown}

    @classmethod
    def columns(cls, rows: list[dict[str, Any]]) -> dict[str, str]:
        """Returns the headings of the page's table by the names of its numbers, in order.

        They are in order here because the result store sorts names.
        """
        return {name: name.replace("_", " ") for name in cls.shown}

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
        logs = metrics[METRIC]
        broken = sum(self.violations(log) for log in logs)
        rows = sum(log["rows_after"] for log in logs)
        table = [
            {"partition": log["partition"]}
            | self.numbers(log)
            | {"rows": log["rows_after"], "violations": self.violations(log)}
            for log in logs
        ]
        share = max((log["share"] for log in logs), default=1)
        looked = "" if share == 1 else f", by one key of {share}"
        observed = f"{broken:,} violations in {rows:,} rows of {len(logs)} partitions{looked}"
        return {"success": broken == 0, "result": {"observed_value": observed, "details": {"partitions": table}}}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> list[Any]:
        template = {"template": cls.title, "params": {}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
    def _per_partition(cls, configuration: Any = None, result: Any = None, **_: Any) -> list[Any] | None:
        rows = (result.result or {}).get("details", {}).get("partitions") if result else None
        if not rows:
            return None
        columns = {"partition": "partition", **cls.columns(rows), "rows": "rows after"}
        body = [[_cell(row.get(name, 0)) for name in columns] for row in rows]
        classes = {"body": {"classes": ["table-bordered", "table-sm", "mt-3"]}}
        return [
            RenderedTableContent(
                content_block_type="table", header_row=list(columns.values()), table=body, styling=classes
            )
        ]


def _cell(value: object) -> str:
    """Returns a table's cell as HTML; Great Expectations escapes none, and a partition may be any text."""
    return f"{value:,}" if isinstance(value, int) else html.escape(str(value))


class ExpectLatestRecordPerKey(LogExpectation):
    """Below the checkpoint at most one row per key is left, and it is the key's latest (invariant 1)."""

    title: ClassVar[str] = "Below the checkpoint, the latest record of every key is kept and no other (invariant 1)"
    shown: ClassVar[tuple[str, ...]] = ("duplicate_keys", "wrong_latest")


class ExpectKeptRecordsUnchanged(LogExpectation):
    """Every kept row stood at its offset before and is equal in every column (invariant 2)."""

    title: ClassVar[str] = "Every kept record had its offset before and is unchanged in every column (invariant 2)"
    shown: ClassVar[tuple[str, ...]] = ("invented", "altered")


class ExpectHeadUntouched(LogExpectation):
    """Nothing at or after the first uncleanable offset is gone (invariant 3)."""

    title: ClassVar[str] = (
        "From the first uncleanable offset on, the active segment with it, no record is gone (invariant 3)"
    )
    shown: ClassVar[tuple[str, ...]] = ("head_lost",)


class ExpectNoTombstonePastHorizon(LogExpectation):
    """No tombstone whose delete horizon had passed is left (invariant 5)."""

    title: ClassVar[str] = "No tombstone is left whose delete horizon had passed when its removal ran (invariant 5)"
    shown: ClassVar[tuple[str, ...]] = ("late_tombstones",)


class ExpectLedgerBalances(LogExpectation):
    """Rows before = rows after + rows the ledger says were removed (invariant 4)."""

    title: ClassVar[str] = "Rows before equal rows after plus the rows that the ledger says were removed (invariant 4)"
    shown: ClassVar[tuple[str, ...]] = ("rows_before", "removed")

    @classmethod
    def numbers(cls, log: dict[str, Any]) -> dict[str, int]:
        """Returns the numbers that the page shows of one log: the ledger's sums and the removed rows by cause."""
        causes: dict[str, int] = log["causes"]
        return super().numbers(log) | causes

    @classmethod
    def columns(cls, rows: list[dict[str, Any]]) -> dict[str, str]:
        """Returns the headings, with each cause that removed rows between the rows before and the sum."""
        causes = {cause.name: cause.label for cause in removed_by_cause(rows)}
        return {"rows_before": "rows before", **causes, "removed": "removed"}

    @classmethod
    def violations(cls, log: dict[str, Any]) -> int:
        """Returns the number of rows that the ledger cannot explain."""
        return abs(int(log["rows_before"]) - int(log["rows_after"]) - int(log["removed"]))


class ExpectTransactionsResolved(LogExpectation):
    """No row of an aborted transaction is left, and no marker is gone but those of the ledger (invariants 4 and 8)."""

    title: ClassVar[str] = (
        "No record of an aborted transaction is left, and only the ledger's markers are gone (invariants 4 and 8)"
    )
    shown: ClassVar[tuple[str, ...]] = ("aborted_left", "control_lost", "markers")

    @classmethod
    def violations(cls, log: dict[str, Any]) -> int:
        """Returns the number of aborted rows that are left, and of markers that the ledger cannot explain."""
        return int(log["aborted_left"] + abs(log["control_lost"] - log["markers"]))
