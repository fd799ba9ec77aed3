"""The way to Iceberg: catalogs, metadata, state, and the door to its JVM API."""
