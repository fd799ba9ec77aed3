"""Which rewritten files become one: Kafka's grouping of segments by size (Cleaner.groupSegmentsBySize)."""

from __future__ import annotations

from collections.abc import Collection

from hardpack.log.model import DataFile, Segment


def group_segments(segments: tuple[Segment, ...], hit: Collection[str], segment_bytes: int) -> list[list[DataFile]]:
    """Hit files of one log in groups that each become one new segment.

    A group is a run of neighbours of at most `segment_bytes` before cleaning, or one segment alone. A segment
    that stays as it is ends the run, so that the new files' offset ranges stay apart from its own.

    Args:
        segments: the log's, in offset order.
        hit: paths of the files to rewrite.
        segment_bytes: most bytes of a group.
    """
    groups: list[list[DataFile]] = []
    size, open_run = 0, False
    for segment in segments:
        files = [f for f in segment.files if f.path in hit]
        added = sum(f.bytes for f in files)
        if files and open_run and size + added <= segment_bytes:
            groups[-1].extend(files)
            size += added
        elif files:
            groups.append(files)
            size = added
        open_run = len(files) == len(segment.files)
    return groups
