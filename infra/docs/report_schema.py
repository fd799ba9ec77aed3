"""Writes docs/run_report.schema.json from the model of a run's report: python -m infra.docs.report_schema."""

from __future__ import annotations

import json
from pathlib import Path

from hardpack.compaction.report import RunReport

PAGE = Path(__file__).parents[2] / "docs" / "run_report.schema.json"


def page() -> str:
    """Returns the JSON schema."""
    return json.dumps(RunReport.model_json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
