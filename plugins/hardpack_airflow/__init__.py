"""hardpack inside Airflow: the sensor with its trigger, the operator, the configuration."""
