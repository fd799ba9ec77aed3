"""A DAG for each policy: see hardpack_airflow.factory."""

from hardpack_airflow.factory import compaction_dags

for dag in compaction_dags():
    globals()[dag.dag_id] = dag
