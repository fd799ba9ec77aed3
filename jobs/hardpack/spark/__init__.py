"""What runs on Spark: the offset map, dead positions, the rewrite, the evidence."""
