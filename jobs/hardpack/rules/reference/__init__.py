"""Kafka's cleaner on rows, written to be read; tests hold the rest to it. Production imports nothing of it."""
