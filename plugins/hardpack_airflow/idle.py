"""Work that turns out to be none: what metadata alone decides is done in Airflow's own process and starts no Java."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack import Hardpack
    from hardpack.compaction.plan import Plan
    from pydantic import BaseModel

log = logging.getLogger(__name__)


class NeedsSpark(Exception):
    """Rows have to be read."""


def _phase_two_by_metadata(hp: Hardpack, plan: Plan) -> BaseModel:
    """Phase two after which no tombstone and no marker is due."""
    return hp.expire_after(plan)


def _verify_by_metadata(hp: Hardpack, plan: Plan) -> BaseModel:
    """The check of logs of which the gate has read every row."""
    return hp.verify(plan.table, plan.now, plan.partitions, sample=True)


DECIDED_BY_METADATA: dict[str, Callable[[Hardpack, Plan], BaseModel]] = {
    "phase_two": _phase_two_by_metadata,
    "verify": _verify_by_metadata,
}
"""Verbs that may have nothing to read, and how they are then done."""


def done_without_spark(verb: str, plans: Sequence[str], catalog: str) -> list[dict[str, Any] | None]:
    """Returns for each plan what the Spark application would have left.

    None where that has to be asked: rows have to be read, or the metadata cannot be, which it then tells in its own
    words.

    Args:
        verb: a verb of the DAG.
        plans: as JSON text; the verbs before have ended.
        catalog: its name in pyiceberg's configuration.
    """
    from hardpack import Hardpack

    class ByMetadata(Hardpack):
        @property
        def spark(self) -> Any:
            raise NeedsSpark

    def done(hp: Hardpack, plan: Plan | None) -> dict[str, Any] | None:
        if plan is None:
            return None
        try:
            report = decide(hp, plan)
        except NeedsSpark:
            return None
        except Exception as error:
            log.info("Spark is asked, as the metadata could not be read (%s)", type(error).__name__)
            return None
        return report.model_dump(mode="json") | {"spark_application": ""}

    read = [_plan(text) for text in plans] if verb in DECIDED_BY_METADATA else []
    if not any(read):
        return [None for _ in plans]
    decide = DECIDED_BY_METADATA[verb]
    try:
        with ByMetadata.connect(catalog) as opened:
            return [done(opened, plan) for plan in read]
    except Exception as error:
        log.info("Spark is asked, as the catalog does not answer (%s)", type(error).__name__)
        return [None for _ in plans]


def _plan(text: str) -> Plan | None:
    """Returns a plan, None of the request of a whole table, which is read."""
    from hardpack.compaction.plan import Plan
    from hardpack.errors import BadInput

    try:
        return Plan.from_json(text)
    except BadInput:
        return None
