"""Which segments become one: Kafka's Cleaner.groupSegmentsBySize, and which data files are rewritten together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hardpack.log.model import DataFile, Segment

OFFSET_SPAN = 2**31 - 1
"""A segment's offsets are kept relative to its base in four bytes."""


def group_segments(
    segments: Sequence[Segment], segment_bytes: int, first_uncleanable: int, following: int | None = None
) -> list[list[Segment]]:
    """Neighbours that become one segment, greedily from the first.

    The next one joins while the sizes before cleaning stay within `segment_bytes` and the offsets within four bytes;
    an empty one always does.

    Args:
        segments: those a pass copies, in offset order.
        segment_bytes: most bytes of a group.
        first_uncleanable: end of the round, which bounds the last segment's offsets.
        following: base offset of the segment after them, when the pass ends before the round's end.
    """
    groups: list[list[Segment]] = []
    for at, segment in enumerate(segments):
        after = segments[at + 1].base_offset if at + 1 < len(segments) else following
        last = (first_uncleanable if after is None else after) - 1
        group = groups[-1] if groups else None
        if (
            group is not None
            and sum(s.bytes for s in group) + segment.bytes <= segment_bytes
            and (segment.bytes == 0 or last - group[0].base_offset <= OFFSET_SPAN)
        ):
            group.append(segment)
        else:
            groups.append([segment])
    return groups


def files_to_rewrite(groups: Sequence[Sequence[Segment]], hit: Collection[str]) -> list[list[DataFile]]:
    """Hit files in runs that each become one new file, or several when it grows too large.

    Hit neighbours of one group of segments go together; a file that stays as it is ends the run, so that the new
    files' offset ranges stay apart from its own.
    """
    runs: list[list[DataFile]] = []
    for group in groups:
        open_run = False
        for file in (f for segment in group for f in segment.files):
            if file.path not in hit:
                open_run = False
            elif open_run:
                runs[-1].append(file)
            else:
                runs.append([file])
                open_run = True
    return runs
