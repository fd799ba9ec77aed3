"""Kafka's rules on plain data, as production runs them. Imports errors and pydantic alone."""
