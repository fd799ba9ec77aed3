"""Names of files made of names that others give: short, plain, and never the same for two."""

from __future__ import annotations

import hashlib
import re

MARKED = re.compile(r"-[0-9a-f]{12}$")


def file_name(text: str, most: int = 100, dots: bool = True, also: str = "\0") -> str:
    """Return text as part of a file's name: as it is where that is plain and short, else cut and with its hash.

    Args:
        text: of whatever kind and length.
        most: characters of the result, at least 20.
        dots: whether a dot may stand in it.
        also: what a plain text must not hold, as it divides the parts of a name.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]" if dots else r"[^A-Za-z0-9_-]", "_", text).replace(also, "_")
    # a text that looks like one of ours could be another's name
    if plain == text and len(text) <= most and text.strip(".") and not MARKED.search(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[: most - 13].strip('.')}-{digest}"
