"""Plots of what a pass costs, from stored figures: python -m tests.benchmarks.plots FIGURES.json …"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair


@dataclass(frozen=True)
class Plot:
    """One picture: the data sets whose names begin so, and what of them lies on the axis."""

    name: str
    title: str
    axis: str
    families: tuple[str, ...]
    at: Callable[[dict[str, Any]], float]


PLOTS = (
    Plot("cost_by_rows", "Half of the rows dirty, every file hit", "million rows", ("uniform_half",),
         lambda data: (data["tail"] + data["head"]) / 1e6),
    Plot("cost_by_tail", "A head of 1 M rows whose keys lie in 1.9 M clean ones", "million clean rows",
         ("local_5", "local_tail"), lambda data: data["tail"] / 1e6),
    Plot("cost_by_head_share", "10 M rows, the head's share of them", "head's share, per cent",
         ("head_",), lambda data: 100 * data["head"] / (data["tail"] + data["head"])),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.plots", description=__doc__)
    parser.add_argument("figures", type=Path, nargs="+", help="what `python -m tests.benchmarks --out` stored")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder of the pictures")
    args = parser.parse_args()
    sets = [one for path in args.figures for one in json.loads(path.read_text())["sets"]]
    for plot in PLOTS:
        if points := list(points_of(plot, sets)):
            drawn(plot, points).save(args.out / f"{plot.name}.svg")
            print(f"{args.out / plot.name}.svg: {len(points)} medians")


def points_of(plot: Plot, sets: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Median seconds of each method on each data set of the family."""
    for one in sets:
        if one["data"]["name"].startswith(plot.families):
            for method, cost in one["medians"].items():
                if "seconds" in cost:
                    yield {"at": plot.at(one["data"]), "seconds": cost["seconds"], "method": method}


def drawn(plot: Plot, points: list[dict[str, Any]]) -> altair.LayerChart:
    """Lines with a point for each figure; both axes from nought, so that distances are ratios."""
    base = altair.Chart(altair.Data(values=points), title=plot.title, width=440, height=260).encode(
        x=altair.X("at:Q", title=plot.axis, scale=altair.Scale(zero=True)),
        y=altair.Y("seconds:Q", title="seconds, median", scale=altair.Scale(zero=True)),
        color=altair.Color("method:N", title=None, legend=altair.Legend(labelLimit=300)),
    )
    return (base.mark_line() + base.mark_point(filled=True, size=50)).configure(background="white")


if __name__ == "__main__":
    main()
