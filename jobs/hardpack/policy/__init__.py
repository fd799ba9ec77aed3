"""Policies and the file that they stand in. Imports errors, home and rules; neither Airflow nor a catalog."""

from hardpack.policy.model import UNIT_BYTES, Policies, Policy

__all__ = ["UNIT_BYTES", "Policies", "Policy"]
