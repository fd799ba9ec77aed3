"""Maintenance of all adopted tables: see hardpack_airflow.maintenance."""

from hardpack_airflow.maintenance import maintenance_dag

dag = maintenance_dag()
