"""A lakehouse and an Airflow on this machine, with a topic of real data: `python -m hardpack_airflow.demo run`."""
