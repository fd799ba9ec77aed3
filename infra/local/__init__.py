"""The embedded lakehouse and a real Airflow on this machine, for `make run`, `make up` and the whole-system test."""
