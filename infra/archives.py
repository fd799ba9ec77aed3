"""Archives that set-up and tests unpack."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpacks an archive; where Python has filters for it, an entry outside the folder is refused.

    Args:
        archive: an open one.
        folder: where to.
    """
    # Python before 3.11.4, as in Debian 12, has no filters, and does not know the argument that names one
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **filters)
