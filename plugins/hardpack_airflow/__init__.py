"""hardpack inside Airflow: policies as DAGs, the sensor with its trigger, the operator, pages, the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def policy_dags() -> dict[str, DAG]:
    """Returns all DAGs by id, for `globals().update(…)` in a DAG file.

    Each policy has a DAG. Two more go over all tables, and one is for work by hand.

    Raises:
        BadInput: the policy file cannot be read; Airflow shows the sentence as an import error of the DAG file. A fault
            of one policy, or of the section `[hardpack]`, raises nothing: a failing DAG says what is wrong instead.
    """
    # Airflow imports this package to read its settings, at a time when Airflow itself cannot be imported yet
    from hardpack_airflow.all_tables import maintenance_dag, quality_dag
    from hardpack_airflow.by_hand import DAG_ID, by_hand_dag
    from hardpack_airflow.factory import compaction_dags, made_or_refused

    others = {"hardpack_maintenance": maintenance_dag, "hardpack_quality": quality_dag, DAG_ID: by_hand_dag}
    dags = [made_or_refused(name, make) for name, make in others.items()]
    return {dag.dag_id: dag for dag in (*compaction_dags(), *dags)}
