"""Does in Airflow's own process, without Java, what metadata alone decides, as where no row has to be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack import Hardpack
    from hardpack.cli.spark_submit import TableRequest
    from hardpack.compaction.plan import Plan
    from pydantic import BaseModel

log = logging.getLogger(__name__)


class NeedsSpark(Exception):
    """Rows have to be read, which needs Spark."""


DECIDED_BY_METADATA = ("phase_two", "verify")
"""The verbs that may need no rows."""


def _by_metadata(verb: str, hp: Hardpack, work: Plan | TableRequest) -> BaseModel:
    """Returns a verb's report where metadata alone tells it.

    Raises:
        NeedsSpark: a row has to be read, or `verify` is asked of a whole table: who asks for that wants its rows read.
    """
    from hardpack.cli.spark_submit import TableRequest, expire

    if verb == "phase_two":
        return expire(hp, work)
    if isinstance(work, TableRequest):
        raise NeedsSpark
    return hp.verify(work.table, work.now, work.partitions, sample=True)


def done_without_spark(verb: str, plans: Sequence[str], catalog: str) -> list[dict[str, Any] | None]:
    """Returns for each plan the result that the Spark application would have left, or None where Spark is needed.

    Spark is needed when rows have to be read. It is also asked when the metadata cannot be read, because the
    application then reports that error in its own words.

    Args:
        verb: a verb of the DAG.
        plans: plans or requests as JSON text. The verbs before this one have ended.
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
            report = _by_metadata(verb, hp, work)
        except NeedsSpark:
            return None
        except Exception as error:
            log.info("Spark is asked, as the metadata could not be read (%s)", type(error).__name__)
            return None
        return report.model_dump(mode="json") | {"spark_application": ""}

    read = [_work(text) for text in plans] if verb in DECIDED_BY_METADATA else []
    if not any(read):
        return [None for _ in plans]
    try:
        with ByMetadata.connect(catalog) as opened:
            return [done(opened, work) for work in read]
    except Exception as error:
        log.info("Spark is asked, as the catalog does not answer (%s)", type(error).__name__)
        return [None for _ in plans]


def _work(text: str) -> Plan | TableRequest | None:
    """Returns the plan or request of a JSON text; None when it is neither, which the application then reports."""
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
