"""The kind of picture that figures.py draws: lanes with bars over time, and arrows from lane to lane."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from results import ROOT

sys.path.append(str(ROOT))  # for benchmarks/, which is installed nowhere
from benchmarks import plot_style

Lane = tuple[str, str]  # the name of its group, such as a process, and its own
WIDTH, HEIGHT, BAR = 11, 0.44, 0.6  # inches of the picture, and of a lane; a bar's part of a lane


@dataclass
class Bar:
    """An activity, or a state. `kind` is a key of Picture.colours."""

    lane: Lane
    begin: float
    end: float
    kind: str
    text: str = ""


@dataclass
class Arrow:
    """The effect of one lane on another one."""

    source: Lane
    begin: float
    target: Lane
    end: float
    kind: str


@dataclass
class Picture:
    """Lanes from the top, each with a second line for its name, and the colour of each kind."""

    lanes: dict[Lane, str]
    colours: dict[str, str]
    times: str  # their unit and zero
    bars: list[Bar] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    @property
    def end(self) -> float:
        return max(bar.end for bar in self.bars)


def draw(picture: Picture, output: Path) -> None:
    """Write the picture; the ending chooses SVG or PNG. The same data gives the same file."""
    with matplotlib.rc_context(plot_style.SETTINGS):
        figure = Figure(figsize=(WIDTH, HEIGHT * (len(picture.lanes) + 4)), layout="constrained")
        axes = figure.subplots()
        places: dict[Lane, float] = {}
        for group, name in picture.lanes:
            is_first = group not in {other for other, _ in places}
            places[group, name] = place = max(places.values(), default=-1) + 1 + 0.6 * is_first
            axes.axhline(place, color=plot_style.GRID, linewidth=1, zorder=0)
            if is_first:  # a heading, beside the axes
                at: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
                axes.text(-0.01, place - 0.8, group, fontweight="bold", **at)
        names = [f"{name}\n{role}".strip() for (_, name), role in picture.lanes.items()]
        plot_style.lanes(axes, list(places.values()), names)
        axes.set_xlim(-0.01 * picture.end, 1.01 * picture.end)
        axes.set_xlabel(picture.times)
        for bar in picture.bars:
            _draw_bar(axes, bar, places[bar.lane], picture)
        for arrow in picture.arrows:
            _draw_arrow(axes, arrow, places[arrow.source], places[arrow.target], picture.colours[arrow.kind])
        handles, kinds = axes.get_legend_handles_labels()
        legend = dict(zip(kinds, handles, strict=True))
        figure.legend(legend.values(), legend, loc="outside upper left", ncols=4, frameon=False)
        metadata = {"Date": None} if output.suffix == ".svg" else None
        figure.savefig(output, dpi=100, bbox_inches="tight", metadata=metadata)


def _draw_bar(axes: Any, bar: Bar, place: float, picture: Picture) -> None:
    """With its text in it, or above it where it is too short."""
    colour, length = picture.colours[bar.kind], bar.end - bar.begin
    letters = length / picture.end * WIDTH * 9  # for which it has room
    edge = {"edgecolor": "white", "linewidth": 0.8 if letters > 2 else 0}
    axes.broken_barh([(bar.begin, length)], (place - BAR / 2, BAR), facecolor=colour, label=bar.kind, **edge)
    if len(bar.text) < letters:
        middle, box = bar.begin + length / 2, {"facecolor": colour, "linewidth": 0, "pad": 1}
        axes.text(middle, place, bar.text, fontsize=10, ha="center", va="center_baseline", bbox=box, zorder=5)
    else:
        axes.text(bar.begin, place - BAR / 2, bar.text, fontsize=10, va="bottom", zorder=5)


def _draw_arrow(axes: Any, arrow: Arrow, source: float, target: float, colour: str) -> None:
    """From the middle of its lane to the edge of a bar."""
    tip = target - BAR / 2 if target > source else target + BAR / 2
    look = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.4}
    axes.annotate("", (arrow.end, tip), (arrow.begin, source), arrowprops=look, zorder=3)
    axes.plot([arrow.begin], [source], marker="o", markersize=4, color=colour, label=arrow.kind, zorder=4)
