"""Where files lie: whether two locations are one place, and whether one lies inside another.

A place can be written in many ways. Two locations that may be one place count as one. A location counts as inside
another only if every way of reading the two says so. Both rules err on the side of deleting nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
_PORTS = {"hdfs": ":8020", "webhdfs": ":9870"}


@dataclass(frozen=True, slots=True)
class Place:
    """A location in its normal form, so that different ways of writing one place compare equal."""

    scheme: str
    authority: str
    parts: tuple[str, ...]

    def holds(self, other: Place) -> bool:
        """Return whether the other is this place or lies inside it."""
        root = (self.scheme, self.authority) == (other.scheme, other.authority)
        return root and other.parts[: len(self.parts)] == self.parts


def place(location: str, decode: bool = True) -> Place:
    """Return a location in its normal form.

    Args:
        location: as a table's metadata or a catalog's configuration has it.
        decode: whether to decode escapes such as %2F: some libraries do, others do not.
    """
    text = location.strip()
    if decode:
        while (decoded := unquote(text)) != text:
            text = decoded
    parsed = _URI.fullmatch(text)
    scheme, authority, path = parsed.groups(default="") if parsed else ("file", "", text)
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    authority = authority.lower().removesuffix(_PORTS.get(scheme, "\0"))
    if scheme == "file" and authority == "localhost":
        authority = ""
    if scheme == "abfs":
        authority = authority.replace(".blob.core.", ".dfs.core.")
    parts: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return Place(scheme, authority, tuple(parts))


def inside(location: str, folder: str) -> bool:
    """Return whether a location is a folder or lies inside it, both with escapes decoded and as they are."""
    return all(place(folder, decode).holds(place(location, decode)) for decode in (False, True))


def shared(one: str, other: str) -> bool:
    """Return whether two locations are one place or one lies inside the other, with escapes decoded or as they are."""
    readings = [(place(one, decode), place(other, decode)) for decode in (False, True)]
    return any(a.holds(b) or b.holds(a) for a, b in readings)


def why_not(location: str, allowed: Iterable[str]) -> str:
    """Return why nothing may be deleted at a location; empty when the location lies inside an allowed folder."""
    folders = list(allowed)
    if not place(location).parts:
        return f"its location {location} is no folder"
    if any(inside(location, folder) and place(location) != place(folder) for folder in folders):
        return ""
    expected = " or ".join(folders) or "any folder, as the catalog names no warehouse"
    return (
        f"its location {location} does not lie inside {expected}; allow it by the catalog's property hardpack.locations"
    )
