"""Kafka's rules as pure functions on plain data; no Spark, no Airflow, no Iceberg."""
