"""Work that turns out to be none: what metadata alone decides is done in Airflow's own process and starts no Java."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack import Hardpack
    from hardpack.cli.spark_submit import TableRequest
    from hardpack.compaction.plan import Plan
    from pydantic import BaseModel

log = logging.getLogger(__name__)


class NeedsSpark(Exception):
    """Rows have to be read."""


def _phase_two_by_metadata(hp: Hardpack, work: Plan | TableRequest) -> BaseModel:
    """Phase two after which no tombstone and no marker is due."""
    from hardpack.cli.spark_submit import expire

    return expire(hp, work)


def _verify_by_metadata(hp: Hardpack, work: Plan | TableRequest) -> BaseModel:
    """The check of logs of which the gate has read every row; who asks for a whole table wants it read."""
    from hardpack.compaction.plan import Plan

    if not isinstance(work, Plan):
        raise NeedsSpark
    return hp.verify(work.table, work.now, work.partitions, sample=True)


DECIDED_BY_METADATA: dict[str, Callable[[Hardpack, Plan | TableRequest], BaseModel]] = {
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
        plans: or requests, as JSON text; the verbs before have ended.
        catalog: its name in pyiceberg's configuration.
    """
    from hardpack import Hardpack

    class ByMetadata(Hardpack):
        @property
        def spark(self) -> Any:
            raise NeedsSpark

    def done(hp: Hardpack, work: Plan | TableRequest | None) -> dict[str, Any] | None:
        if work is None:
            return None
        try:
            report = decide(hp, work)
        except NeedsSpark:
            return None
        except Exception as error:
            log.info("Spark is asked, as the metadata could not be read (%s)", type(error).__name__)
            return None
        return report.model_dump(mode="json") | {"spark_application": ""}

    read = [_work(text) for text in plans] if verb in DECIDED_BY_METADATA else []
    if not any(read):
        return [None for _ in plans]
    decide = DECIDED_BY_METADATA[verb]
    try:
        with ByMetadata.connect(catalog) as opened:
            return [done(opened, work) for work in read]
    except Exception as error:
        log.info("Spark is asked, as the catalog does not answer (%s)", type(error).__name__)
        return [None for _ in plans]


def _work(text: str) -> Plan | TableRequest | None:
    """Returns a plan or a request, None of what is neither, of which the application tells."""
    from hardpack.cli.spark_submit import TableRequest
    from hardpack.compaction.plan import Plan
    from hardpack.errors import BadInput

    try:
        return TableRequest.model_validate_json(text)
    except ValueError:
        pass
    try:
        return Plan.from_json(text)
    except BadInput:
        return None
