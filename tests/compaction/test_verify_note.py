"""`verify` names the snapshot that it misses, when it cannot compare a pass with what was there before."""

from types import SimpleNamespace

import pytest
from hardpack.compaction.last_passes import Span
from hardpack.compaction.verify import _Verification


@pytest.mark.parametrize(
    ("before", "until", "note"),
    [
        (1, 2, ""),
        (1, None, ""),
        (None, 2, "the snapshot before the last pass is not told by the catalog"),
        (8, 9, "snapshot 8 before the last pass has expired"),
        (1, 9, "snapshot 9 before a later removal has expired"),
    ],
)
def test_which_snapshot_is_lost(before, until, note):
    table = SimpleNamespace(snapshot_by_id={1: "before", 2: "until"}.get)
    check = _Verification(SimpleNamespace(table=table), None, None, None, (), sample=False)
    assert check._lost(Span(before, 5, until)) == note
