"""Charts of a table's history, drawn on the server: SVG that needs no script and follows the page's colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import floor, log10
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpack.operations.summary import Moment

MOST_POINTS = 400
COLORS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
"""Colours of the page's style."""


def charts(moments: Sequence[Moment]) -> list[str]:
    """Draws SVG of the dirty share and the size over time, and of what passes read, wrote and removed, if any did."""
    from hardpack.rules.causes import Cause, removed_by_cause, rows_removed

    passes = [m for m in moments if m.ended]

    def rows(cause: Cause) -> Callable[[Any], float]:
        return lambda m: rows_removed(m.ended.removed, cause)

    causes = removed_by_cause(m.ended.removed for m in passes if m.ended)
    drawn = [
        _lines("Share that came since the last pass", moments, {"share": lambda m: round(m.dirty, 3)}, _share, False),
        _lines("Size of the table", moments, {"size": lambda m: m.bytes}, _bytes, False),
        _lines(
            "Bytes of each pass", passes,
            {
                "read": lambda m: m.ended.bytes_read,
                "written": lambda m: m.ended.bytes_written,
                "reclaimed": lambda m: m.ended.reclaimed,
            },
            _bytes,
        ),
        _lines("Rows that each pass removed", passes, {cause.label: rows(cause) for cause in causes}, _count),
    ]  # fmt: skip
    return drawn if passes else drawn[:2]


def _lines(
    title: str,
    moments: Sequence[Moment],
    series: dict[str, Callable[[Any], float]],
    said: Callable[[float], str],
    legend: bool = True,
) -> str:
    import pygal
    from hardpack.clock import date_of
    from pygal.style import Style

    style = Style(
        background="transparent", plot_background="transparent", font_family="inherit", foreground="var(--quiet)",
        foreground_strong="var(--ink)", foreground_subtle="var(--line)", guide_stroke_color="var(--line)",
        major_guide_stroke_color="var(--line)", colors=tuple(f"var(--{name})" for name in COLORS * 2),
        label_font_size=13, major_label_font_size=13, title_font_size=15, legend_font_size=13,
    )  # fmt: skip
    # pygal leaves no room for a last row of the legend that is not full; with None it chooses, and leaves enough
    columns = next((n for n in (4, 3, 2) if len(series) % n == 0), None)
    chart = pygal.DateTimeLine(
        style=style, js=[], disable_xml_declaration=True, width=520, height=280, title=title, dots_size=2.5,
        show_x_guides=False, legend_at_bottom=True, legend_at_bottom_columns=columns, show_legend=legend,
        value_formatter=said, x_value_formatter=_moment, no_data_text="nothing yet", margin=12, margin_right=44,
    )  # fmt: skip
    chart.add_xml_filter(_without_scripts)
    step = max(1, len(moments) // MOST_POINTS)
    # the newest must be among those shown
    shown = [*reversed(moments[::-1][::step])]
    chart.x_labels = _marks([m.at for m in shown])
    most = max((value(m) for m in shown for value in series.values()), default=0)
    steps = [step for step in _steps(most, 0.01) if step <= 1] if said is _share else _steps(most, 1)
    if steps:
        chart.y_labels, chart.range = steps, (0, steps[-1])
    for name, value in series.items():
        chart.add(name, [(date_of(m.at), value(m)) for m in shown])
    return str(chart.render(is_unicode=True))


def _marks(times: Sequence[int]) -> list[datetime]:
    """Returns four times at equal distances for the axis; one when all are the same."""
    from hardpack.clock import date_of

    if not times:
        return []
    step = (times[-1] - times[0]) / 3
    return [date_of(int(times[0] + step * at)) for at in range(4 if step else 1)]


def _steps(most: float, least: float) -> list[float]:
    """Returns four round values at equal distances, from 0 to `most` or above; none when `most` is 0.

    They are no less than `least` apart, so that no two of them look alike.
    """
    if most <= 0:
        return []
    size = 10.0 ** floor(log10(most / 3))
    step = next(size * times for times in (1, 2, 3, 5, 10) if size * times * 3 >= most)
    return [max(step, least) * at for at in range(4)]


def _without_scripts(root: Any) -> Any:
    for parent in list(root.iter()):
        for child in list(parent):
            if str(child.tag).endswith("script"):
                parent.remove(child)
    return root


def _moment(at: datetime) -> str:
    return at.strftime("%m-%d %H:%M")


def _share(value: float) -> str:
    return f"{value:.0%}"


def _count(value: float) -> str:
    return f"{int(value):,}"


def _bytes(value: float) -> str:
    from rich.filesize import decimal

    return decimal(int(value))
