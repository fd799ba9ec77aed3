"""The engine on executors, and Iceberg's JVM API behind it. Imports files, table and rules."""
