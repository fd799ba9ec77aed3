"""A sample of histories on real tables through real Spark; the oracle reads their rows by pyiceberg."""

import os
from itertools import count

import pytest

from tests.histories.spark_world import play_on_spark, short
from tests.histories.steps import Step, to_script

pytestmark = [pytest.mark.spark, pytest.mark.histories]
_names = count()

FIRST, NUMBER = int(os.environ.get("SEED", "1")), int(os.environ.get("SPARK_HISTORIES", "10"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + NUMBER))
def test_a_history_on_a_real_table(seed, catalog, spark, home, no_pages):
    steps = short(seed, f"t.history{next(_names)}")
    print(to_script(steps))
    play_on_spark(steps, catalog, spark, home)


def test_what_passes_hid_leaves_the_files_with_its_tombstone(catalog, spark, home, no_pages):
    """A late row puts the file of a hidden one into the head, and then the key is deleted (invariant 5)."""
    t = f"t.history{next(_names)}"
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "3600000",
                "idle.tombstones": "expire", "duplicates.ignore": "rid"}  # fmt: skip

    def rows(kind, *keys):
        return Step("append", {"t": t, "logs": {"0": [[key, kind, 1, "now"] for key in keys]}})

    clean = Step("clean", {"t": t, "force": True})
    steps = [
        Step("create", {"t": t, "version": 2, "settings": settings, "on_read": True}),
        rows("value", *"abcdefgh"), rows("value", "a"), rows("value", "i"), clean,
        Step("late", {"t": t, "log": 0, "rows": [[0, "late", "value"]]}),
        rows("tombstone", "a"), rows("value", "j"), clean,
        Step("advance", {"ms": 7200000}), Step("expire_tombstones", {"t": t}),
    ]  # fmt: skip
    world = play_on_spark(steps, catalog, spark, home)
    assert not [row for row in world.lake.tabs[t].stored(world.lake.tabs[t].meta.current_snapshot_id) if row.key == "a"]
