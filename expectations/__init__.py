"""Kafka's compaction guarantees as Great Expectations expectations, and their suites beside."""
