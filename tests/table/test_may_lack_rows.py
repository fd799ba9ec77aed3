"""From which logs others may have deleted rows that no pass has copied: where a missing offset may be a marker."""

from itertools import count

import pytest
from hardpack.rules.reference.cleaner import Row
from hardpack.table.log_views import may_lack_rows, read_logs

from tests.layouts import PLAIN, as_manifest_has_it, mapped, written
from tests.topics import T0

_names = count()


PASS, WHOLE, PART = {"hardpack.plan": "one:p"}, {"hardpack.split": "whole:s"}, {"hardpack.split": "s"}


@pytest.mark.parametrize(("summary", "lacking"), [(PASS, []), (WHOLE, []), (PART, [0]), ({}, [0])])
def test_what_a_pass_or_a_split_of_ours_took_is_not_missing(catalog, summary, lacking):
    """Where a full offset map ends inside a segment, the pass has copied rows that lie above the checkpoint."""
    table = PLAIN.adopted(catalog, f"lack.t{next(_names)}")
    rows = [Row(o, b"k%d" % o, b"v", timestamp=T0) for o in range(4)]
    PLAIN.append(table, {0: rows})
    (old,) = (task.file for task in table.refresh().scan().plan_files())
    (new,) = written(table, [((0,), [PLAIN.cells(0, r) for r in rows if r.offset != 1])])
    with table.transaction() as change, change.update_snapshot(summary).overwrite() as snapshot:
        snapshot.delete_data_file(old)
        snapshot.append_data_file(as_manifest_has_it(new))
    PLAIN.append(table, {0: [Row(4, b"z", b"v", timestamp=T0)]})
    views = read_logs(table.refresh(), mapped(PLAIN))
    assert [v.partition for v in may_lack_rows(table, views)] == lacking
