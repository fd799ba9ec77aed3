"""hardpack: Kafka's log compaction for Apache Iceberg tables."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack.api import Hardpack
    from hardpack.errors import BadInput, Conflict, GateRefused, HardpackError
    from hardpack.plan import Plan
    from hardpack.report import PassReport, VerifyReport

__all__ = ["BadInput", "Conflict", "GateRefused", "Hardpack", "HardpackError", "PassReport", "Plan", "VerifyReport"]

_HOME = {"Hardpack": "api", "Plan": "plan", "PassReport": "report", "VerifyReport": "report"}


def __getattr__(name: str) -> Any:
    # late, so that the pure rules and Spark's Python workers do not load the catalog client
    if name not in __all__:
        raise AttributeError(f"module 'hardpack' has no attribute {name!r}")
    return getattr(import_module(f"hardpack.{_HOME.get(name, 'errors')}"), name)
