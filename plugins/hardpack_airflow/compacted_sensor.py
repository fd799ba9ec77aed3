"""The sensor for DAGs of your own: is a table compacted up to a time or an offset? Reads metadata, starts no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context

from hardpack_airflow.airflow_names import AirflowFailException
from hardpack_airflow.config import usual_catalog
from hardpack_airflow.failures import task_failure
from hardpack_airflow.trigger import patient

if TYPE_CHECKING:
    from hardpack.operations.status import LogStatus


class CompactedSensor(BaseSensorOperator):
    """Ends well when passes have covered every row of a table that is older than a time, or below an offset.

    Where a log's newest file is its active segment, no pass covers it; ask for a time or offset before it.

    :param table: namespace.table (templated)
    :param up_to: a time, ms since the epoch or ISO 8601, as `{{ data_interval_end }}` is (templated)
    :param offset: in place of `up_to`, the least checkpoint that each log has to have
    :param partitions: only these logs of the table; empty for all
    :param catalog: where the table is; empty: the usual one (templated)
    """

    template_fields: Sequence[str] = ("table", "up_to", "catalog")

    def __init__(
        self,
        *,
        table: str,
        up_to: str = "",
        offset: int | None = None,
        partitions: Sequence[str] = (),
        catalog: str = "",
        **kwargs: Any,
    ) -> None:
        if bool(up_to) == (offset is not None):
            raise ValueError("CompactedSensor waits for a time or for an offset; give it up_to or offset.")
        super().__init__(**{"mode": "reschedule", **kwargs})
        self.table, self.up_to, self.offset, self.partitions = table, up_to, offset, list(partitions)
        self.catalog = catalog

    def poke(self, context: Context) -> bool:
        """Looks once, and logs which logs are not compacted as far; returns whether all are."""
        from hardpack import Hardpack
        from hardpack.clock import clock, time_of
        from hardpack.operations.status import MIXED

        # a DAG that renders native objects gives up_to as a datetime
        now, up_to = clock(), str(self.up_to or "").strip()
        if not up_to and self.offset is None:
            raise AirflowFailException(f"{self.table}: up_to is empty once it is rendered, expected a time.")
        try:
            until = time_of(up_to) if up_to else None
            logs = patient(lambda: Hardpack.connect(self.catalog or usual_catalog()).status(self.table, now))()
        except Exception as error:  # whatever it is, the task fails with its sentence
            raise task_failure(error) from error
        names = {str(log.partition) for log in logs}
        # files that have to be split may hold rows of any log
        wanted = {*self.partitions, MIXED} if self.partitions else names
        if (lost := sorted(set(self.partitions) - names)) and logs and MIXED not in names:
            raise AirflowFailException(f"{self.table}: there is no log {lost[0]}; expected one that `status` lists.")
        waiting = list(_behind([log for log in logs if str(log.partition) in wanted], now, until, self.offset))
        if not logs and self.offset is not None:
            waiting.append("it has no row yet")
        for line in waiting:
            self.log.info("%s/%s", self.table, line)
        return not waiting


def _behind(logs: Iterable[LogStatus], now: int, until: int | None, offset: int | None) -> Iterable[str]:
    """Yields a line for each log that passes have not covered up to the time or the offset."""
    from hardpack.clock import moment
    from hardpack.operations.status import MIXED

    for log in logs:
        age = log.dirty_age_ms
        # rows that are stamped in the future have the age 0 too
        is_covered = age == 0 and log.partition != MIXED and log.first_dirty >= log.log_end
        # first_dirty counts too, as late rows lie below the checkpoint
        if offset is not None and (log.checkpoint is None or min(log.checkpoint, log.first_dirty) < offset):
            yield f"{log.partition}: passes have covered the rows below {log.first_dirty}, {log.reason}"
        elif until is not None and age is None and (log.partition == MIXED or log.first_dirty < log.first_uncleanable):
            yield f"{log.partition}: rows of which no time is told wait for a pass, {log.reason}"
        elif until is not None and age is not None and not is_covered and now - age < until:
            yield f"{log.partition}: rows from {moment(now - age)} on wait for a pass, {log.reason}"
