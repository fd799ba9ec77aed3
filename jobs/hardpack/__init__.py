"""hardpack: Kafka's log compaction for Apache Iceberg tables."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack.api import Hardpack
    from hardpack.compaction.plan import Plan
    from hardpack.compaction.report import PassReport, VerifyReport
    from hardpack.errors import BadInput, Conflict, GateRefused, HardpackError

__all__ = ["BadInput", "Conflict", "GateRefused", "Hardpack", "HardpackError", "PassReport", "Plan", "VerifyReport"]

_HOME = {
    "Hardpack": "api",
    "Plan": "compaction.plan",
    "PassReport": "compaction.report",
    "VerifyReport": "compaction.report",
}


def __getattr__(name: str) -> Any:
    # imported at first use, so that the pure rules and Spark's Python workers do not load the catalog client
    if name not in __all__:
        raise AttributeError(f"module 'hardpack' has no attribute {name!r}")
    return getattr(import_module(f"hardpack.{_HOME.get(name, 'errors')}"), name)
