"""Every DAG of hardpack, one for each policy and one for maintenance; Airflow needs no more than this file."""

from hardpack_airflow import policy_dags

globals().update(policy_dags())
