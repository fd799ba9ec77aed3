"""hardpack inside Airflow: policies as DAGs, the sensor with its trigger, the operator, pages, the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def policy_dags() -> dict[str, DAG]:
    """Returns all DAGs by id, for `globals().update(…)` in a DAG file: of policies, over all tables, by hand.

    Raises:
        BadInput: the policy file cannot be read; Airflow shows the sentence as an import error of the DAG file. What is
            wrong of one policy alone is said by its own DAG.
    """
    # Airflow asks this package for its settings before it can be imported itself
    from hardpack_airflow.all_tables import maintenance_dag, quality_dag
    from hardpack_airflow.by_hand import by_hand_dag
    from hardpack_airflow.factory import compaction_dags

    return {dag.dag_id: dag for dag in (*compaction_dags(), maintenance_dag(), quality_dag(), by_hand_dag())}
