"""Work that turns out to be none: what metadata alone decides is done in Airflow's own process and starts no Java."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)


class NeedsSpark(Exception):
    """Rows have to be read."""


def expired_nothing(plan: str, catalog: str) -> dict[str, Any] | None:
    """Returns phase two's report of a plan after which no tombstone and no marker is due.

    Args:
        plan: as JSON text; phase one has applied it.
        catalog: its name in pyiceberg's configuration.

    Returns:
        What the Spark application would have left; None where it has to be asked, as something is due or as the
        metadata cannot be read, which it then tells in its own words.
    """
    from hardpack import Hardpack
    from hardpack.compaction.plan import Plan

    class ByMetadata(Hardpack):
        @property
        def spark(self) -> Any:
            raise NeedsSpark

    try:
        with ByMetadata.connect(catalog) as hp:
            report = hp.expire_after(Plan.from_json(plan))
    except NeedsSpark:
        return None
    except Exception as error:
        log.info("Spark is asked, as the metadata could not be read (%s)", type(error).__name__)
        return None
    return report.model_dump(mode="json") | {"spark_application": ""}
