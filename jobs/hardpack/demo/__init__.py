"""Two topics of real data."""
