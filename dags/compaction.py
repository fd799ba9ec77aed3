"""Every DAG of hardpack: of policies, of maintenance, for work by hand. Airflow needs no more than this file."""

from hardpack_airflow import policy_dags

globals().update(policy_dags())
