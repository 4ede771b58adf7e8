"""Common parts of the pictures of tools/: lanes of bars over time, arrows between them, and how a figure is saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from results import ROOT

sys.path.append(str(ROOT))  # for benchmarks/, which is installed nowhere
from benchmarks import plot_style as plot_style

WIDTH = 11  # inches of every picture: text of 11 points is then read well at 900 pixels
BAR = 0.66  # of a lane's height


def lanes(axis: Any, names: list[str], title: str) -> None:
    """One name a lane, the first at the top."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.45, -0.55)
    heading(axis, title)
    over_time(axis)


def over_time(axis: Any) -> None:
    """Lines for the times, behind everything; none for the lanes."""
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color=plot_style.GRID, linewidth=0.8)
    axis.set_axisbelow(True)


def heading(axis: Any, text: str) -> None:
    axis.set_title(text, loc="left", fontsize=11.5, fontweight="bold", pad=5)


def bar(axis: Any, lane: float, begin: float, end: float, colour: str, height: float = BAR, **options: Any) -> None:
    """`lane` is its middle."""
    look = {"linewidth": 0, **options}
    axis.broken_barh([(begin, end - begin)], (lane - height / 2, height), facecolor=colour, **look)


def arrow(
    source: Any, begin: tuple[float, float], target: Any, end: tuple[float, float], colour: str, **options: Any
) -> ConnectionPatch:
    """From a point of one axis to a point of another one, or of the same; to be added to the figure."""
    look: dict[str, Any] = {
        "linewidth": 0.9,
        "alpha": 0.75,
        "arrowstyle": "-|>",
        "mutation_scale": 9,
        "shrinkA": 3,
        "shrinkB": 0,
    }
    return ConnectionPatch(begin, end, "data", "data", axesA=source, axesB=target, color=colour, **(look | options))


def save(figure: Figure, output: Path) -> None:
    """The ending chooses SVG or PNG. Drawn twice from the same data a file is the same."""
    figure.savefig(output, dpi=100, metadata={"Date": None} if output.suffix == ".svg" else None)
