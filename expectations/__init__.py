"""Kafka's compaction guarantees as Great Expectations expectations, and their suites beside."""

import logging

# Great Expectations logs a line per class on import, and warns of every renderer that a class overrides
logging.getLogger("great_expectations").setLevel(logging.ERROR)
