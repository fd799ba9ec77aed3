"""The one folder outside the tables: jars, validation results, Data Docs, reports; none is needed to recover."""

import os
from pathlib import Path


def default_home() -> Path:
    """HARDPACK_HOME, else `.hardpack` in the current folder."""
    return Path(os.environ.get("HARDPACK_HOME", ".hardpack")).absolute()
