"""Which segments become one: Kafka's Cleaner.groupSegmentsBySize, and which data files are rewritten together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from hardpack.rules.model import DataFile, Segment

T = TypeVar("T")

OFFSET_SPAN = 2**31 - 1
"""Greatest distance of an offset from its segment's base, which Kafka keeps in four bytes."""


def in_packs(things: Iterable[T], size: Callable[[T], int], most: int, most_things: int | None = None) -> list[list[T]]:
    """Cuts a sequence into packs of neighbours whose sizes add up to `most` at most; a larger thing is a pack alone.

    Args:
        things: in their order.
        size: returns the size of one thing.
        most: greatest size of a pack.
        most_things: greatest number of things in a pack, None for any number.
    """
    packs: list[list[T]] = []
    held = 0
    for thing in things:
        taken = size(thing)
        if not packs or held + taken > most or len(packs[-1]) == most_things:
            packs.append([])
            held = 0
        packs[-1].append(thing)
        held += taken
    return packs


def group_segments(
    segments: Sequence[Segment], segment_bytes: int, bound: int, following: int | None = None
) -> list[list[Segment]]:
    """Groups neighbouring segments that become one segment, greedily from the first.

    The next segment joins while the sizes before cleaning stay within `segment_bytes` and the offsets within four
    bytes. An empty segment joins whatever its offsets.

    Args:
        segments: the segments that a pass copies, in offset order.
        segment_bytes: most bytes of a group.
        bound: end of the round, which bounds the last segment's offsets.
        following: base offset of the segment after them, when the pass ends before the round's end.
    """
    groups: list[list[Segment]] = []
    size = 0
    for at, segment in enumerate(segments):
        after = segments[at + 1].base_offset if at + 1 < len(segments) else following
        last = (bound if after is None else after) - 1
        group = groups[-1] if groups else None
        if (
            group is not None
            and size + segment.bytes <= segment_bytes
            and (segment.bytes == 0 or last - group[0].base_offset <= OFFSET_SPAN)
        ):
            group.append(segment)
            size += segment.bytes
        else:
            groups.append([segment])
            size = segment.bytes
    return groups


def files_to_rewrite(
    groups: Sequence[Sequence[Segment]], living: Mapping[str, int], fixed: Collection[str] = ()
) -> list[list[DataFile]]:
    """Returns runs of files to rewrite: all hit files, which hold a row to drop, and small clean files beside them.

    Each run becomes one new file, or several if that would grow too large.

    A run lies inside one of Kafka's groups and consists of neighbours. A hit file always joins its neighbour. A clean
    file joins when it is no larger than what is written beside it anyway. So a byte is written again only into a file
    of twice the size, and large clean files stay. A file that stays ends the run, which keeps the offset ranges of new
    files apart from its own. A file of another Iceberg partition ends the run too, as no file can span partitions.

    Args:
        groups: the segments of each group, which become one segment.
        living: bytes that a rewrite leaves of each hit file, by path.
        fixed: paths of files that may not join a run as clean files.
    """
    return [run for group in groups for run in _runs([f for s in group for f in s.files], living, fixed)]


def _runs(files: Sequence[DataFile], living: Mapping[str, int], fixed: Collection[str]) -> list[list[DataFile]]:
    sizes = [living.get(f.path, f.bytes) for f in files]

    def joins(at: int, beside: int, size: int) -> bool:
        if files[at].iceberg_partition != files[beside].iceberg_partition:
            return False
        return files[at].path in living or (sizes[at] <= size and files[at].path not in fixed)

    runs: list[tuple[int, int, int]] = []
    for at, file in enumerate(files):
        if file.path not in living or (runs and at < runs[-1][1]):
            continue
        start, end, size = at, at + 1, sizes[at]
        while True:
            if end < len(files) and joins(end, start, size):
                size += sizes[end]
                end += 1
            elif runs and start == runs[-1][1] and files[start].iceberg_partition == files[start - 1].iceberg_partition:
                start, _, before = runs.pop()
                size += before
            elif start > 0 and joins(start - 1, start, size):
                start -= 1
                size += sizes[start]
            else:
                break
        runs.append((start, end, size))
    return [list(files[start:end]) for start, end, _ in runs]
