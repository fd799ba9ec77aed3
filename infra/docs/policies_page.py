"""Writes docs/policies.md from the model of the policy file: python -m infra.docs.policies_page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardpack.policy import Policy
from pydantic_core import PydanticUndefined

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
HEAD = """\
# The policy file

What it is for is told in [airflow.md](airflow.md#policies). `hardpack policies` checks a file, and
`hardpack policies --schema` prints its JSON schema. Sizes are bytes and times are milliseconds.

This page is made by `make docs`.
"""


def page() -> str:
    """Returns the whole page: each field of a policy with its meaning and its default."""
    return HEAD + "".join(_section(name, field) for name, field in Policy.model_fields.items())


def _section(name: str, field: Any) -> str:
    meaning = field.description
    return f"\n## `{field.alias or name}`\n\n{meaning[0].upper()}{meaning[1:]}.\n\n{_default(field.default)}\n"


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "It has to be given."
    if value in ("", (), {}):
        return "Default: none."
    return f"Default: `{str(value).lower() if isinstance(value, bool) else value}`."


if __name__ == "__main__":
    PAGE.write_text(page())
