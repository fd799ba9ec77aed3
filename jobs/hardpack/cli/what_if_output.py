"""What other values of a setting would have done, as a table with bars."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from hardpack.clock import moment, span
from hardpack.errors import plain
from hardpack.operations.what_if import WhatIf
from hardpack.rules.times import DAY_MS

BAR = 10
"""Characters of the longest bar."""


def what_if_table(found: WhatIf) -> Group:
    """Returns what each value would have done, beside what the table's own passes did."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", title=found.setting, title_justify="left", title_style="bold")
    for name in ("value", "passes/day", "logs/day", "written/byte", "", "worst lag", "dead rows", ""):
        table.add_column(name, justify="left" if name in ("value", "") else "right", no_wrap=True)
    most = max((o.written_per_appended for o in found.outcomes), default=0.0)
    for one in found.outcomes:
        table.add_row(
            plain(one.value),
            f"{one.passes_per_day:.1f}",
            f"{one.logs_cleaned_per_day:.1f}",
            f"{one.written_per_appended:.2f}",
            _bar(one.written_per_appended / most if most else 0.0),
            span(one.worst_lag_ms),
            f"{one.dead_share:.1%}",
            _bar(one.dead_share),
        )
    return Group(table, Text(_told(found)))


def _bar(share: float) -> str:
    return "█" * round(share * BAR)


def _told(found: WhatIf) -> str:
    days = (found.end - found.begin) / DAY_MS
    own = found.bytes_written / found.bytes_appended if found.bytes_appended else 0.0
    said = [
        f"{found.table}, {moment(found.begin)} to {moment(found.end)}, a look every {span(found.every_ms)}:",
        f"{found.appends} commits brought {decimal(found.bytes_appended)}.",
        f"Its own passes: {found.passes / days if days else 0.0:.1f} a day, {own:.2f} bytes written per byte.",
    ]
    if found.unmeasured:
        logs = ", ".join(map(str, found.unmeasured))
        said.append(f"No pass tells of {logs}: all rows there count as alive.")
    if found.unlike:
        said.append(f"{found.unlike} commits of others were no appends, and are passed over.")
    return "\n".join(map(plain, said))
