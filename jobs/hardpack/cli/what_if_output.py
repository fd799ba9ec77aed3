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


def what_if_table(report: WhatIf) -> Group:
    """Returns a table of what each value would have done, and below it what the table's own passes did."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", title=report.setting, title_justify="left", title_style="bold")
    for name in ("value", "passes/day", "logs/day", "written/byte", "", "worst lag", "dead rows", ""):
        table.add_column(name, justify="left" if name in ("value", "") else "right", no_wrap=True)
    most = max((o.written_per_appended for o in report.outcomes), default=0.0)
    for one in report.outcomes:
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
    return Group(table, Text(_in_words(report)))


def _bar(share: float) -> str:
    return "█" * round(share * BAR)


def _in_words(report: WhatIf) -> str:
    days = (report.end - report.begin) / DAY_MS
    own = report.bytes_written / report.bytes_appended if report.bytes_appended else 0.0
    said = [
        f"{report.table}, {moment(report.begin)} to {moment(report.end)}, a look every {span(report.every_ms)}:",
        f"{report.appends} commits brought {decimal(report.bytes_appended)}.",
        f"Its own passes: {report.passes / days if days else 0.0:.1f} a day, {own:.2f} bytes written per byte.",
    ]
    if report.unmeasured:
        logs = ", ".join(map(str, report.unmeasured))
        said.append(f"No pass tells of {logs}: all rows there count as alive.")
    if report.unlike:
        said.append(f"{report.unlike} commits of others were no appends, and are passed over.")
    return "\n".join(map(plain, said))
