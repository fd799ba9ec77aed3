"""Sends gauges to wherever Airflow sends its own metrics: StatsD, Datadog or OpenTelemetry, as `[metrics]` says."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hardpack_airflow.airflow_names import stats

log = logging.getLogger(__name__)


def send(policy: str, gauges: Mapping[str, float]) -> None:
    """Sends a policy's gauges, each tagged with the policy.

    A gauge is named `hardpack.NAME`, or `hardpack.POLICY.NAME` when the policy is not called `hardpack`. An error is
    only logged: a run does not fail for want of a metric.
    """
    prefix = "hardpack" if policy == "hardpack" else f"hardpack.{policy}"
    try:
        sender = stats()
        for name, value in gauges.items():
            sender.gauge(f"{prefix}.{name}", value, tags={"policy": policy})
    except Exception as error:  # whatever it is, the run goes on
        log.warning("metrics could not be sent: %s: %s", type(error).__name__, error)
