"""Draws a Picture of notifies.py with matplotlib: a lane for each thread, and an arrow for each notification."""

from __future__ import annotations

import itertools
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import charts
import matplotlib
from charts import plot_style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

if TYPE_CHECKING:
    from notifies import Arrow, Bar, Lane, Picture

BUSY, WAITING, STEP = "#bfe0f5", "#eeeeee", plot_style.BLUE
GROUND = "#f7f7f4"
SUBJECTS = ("#0072b2", plot_style.RED, plot_style.GREEN, "#a3427f")
INK = plot_style.INK
HEIGHT = 0.5  # of a bar
LEFT, RIGHT = 0.18, 0.985  # of the figure's width: where the lanes are
INCHES = 0.66  # a lane
LINE = 0.215  # inches of a line of the key
BEFORE, AFTER = 0.05, 1.04  # of the picture's end: what is shown
GAP = 0.55  # lanes between processes, for the name of the second
LETTER, HIGH = 5.2, 15.0  # points, about, of small text and of a label
LIMIT = 20.0  # points; room enough
HEAD = 8.0  # points of an arrow's end that must be seen
AWAY = 12.0  # points of room that outweigh a place beside the arrow
Point = tuple[float, float]
Way = tuple[Point, Point]


def draw(picture: Picture, output: Path) -> None:
    """Writes the picture; the ending chooses SVG or PNG."""
    places = _places(picture.lanes)
    key = _key(picture)
    lanes = (places[-1] + 1.25) * INCHES
    below = 0.72 + LINE * len(key)
    height = lanes + below + 0.21 * _legend_rows(picture) + 0.2
    with matplotlib.rc_context(plot_style.SETTINGS):
        figure = Figure(figsize=(charts.WIDTH, height), facecolor="white")
        axis = figure.add_axes((LEFT, below / height, RIGHT - LEFT, lanes / height))
        axis.set_xlim(-BEFORE * picture.end, AFTER * picture.end)
        axis.set_ylim(places[-1] + 0.6, -0.65)
        _draw_lanes(axis, picture, places)
        for bar in sorted(picture.bars, key=lambda bar: bar.is_step):
            _draw_bar(axis, bar, places[bar.lane])
        ways = [_way(axis, picture, arrow, places) for arrow in picture.arrows]
        for arrow, (begin, end) in zip(picture.arrows, ways, strict=True):
            look = {"linewidth": 1.4, "alpha": 1, "mutation_scale": 11, "shrinkA": 0, "zorder": 4}
            axis.add_artist(charts.arrow(axis, begin, axis, end, SUBJECTS[arrow.whose], **look))
        paper = _Paper(axis, places, ways)
        for bar in [bar for bar in picture.bars if not bar.is_step]:
            others = [other for other in picture.bars if other.lane == bar.lane]
            _name_bar(axis, bar, places[bar.lane], others, paper)
        _label_arrows(axis, picture, ways, paper)
        _draw_key(figure, key, picture.note, below / height, height)
        _legend(figure, picture)
        charts.save(figure, output)


def _places(lanes: list[Lane]) -> list[float]:
    """The middle of each, from above."""
    places: list[float] = []
    at = 0.0
    for before, lane in itertools.pairwise([lanes[0], *lanes]):
        at += (GAP if before.process != lane.process else 0) + (1 if places else 0)
        places.append(at)
    return places


def _draw_lanes(axis: Any, picture: Picture, places: list[float]) -> None:
    begin, end = axis.get_xlim()
    names = [f"{lane.thread}\n{lane.role}" for lane in picture.lanes]
    axis.set_yticks(places, [""] * len(places))
    for process, group in itertools.groupby(range(len(places)), key=lambda i: picture.lanes[i].process):
        lanes = list(group)
        top, bottom = places[lanes[0]] - 0.62, places[lanes[-1]] + 0.46
        left = begin - (end - begin) * LEFT / (RIGHT - LEFT) * 0.97
        box = Rectangle((left, top), end - left, bottom - top, facecolor=GROUND, linewidth=0, clip_on=False)
        axis.add_patch(box).set_zorder(-3)
        what = process if process in ("X server",) else f"process {process}" if process != "main process" else process
        axis.text(left, top + 0.05, f" {what}", fontsize=9, va="top", color="#666666", style="italic")
    for place, name in zip(places, names, strict=True):
        thread, role = name.split("\n")
        right = begin - (end - begin) * 0.012
        axis.text(right, place - 0.02, thread, fontsize=10.5, fontweight="bold", ha="right", va="bottom")
        axis.text(right, place + 0.04, role, fontsize=9.5, ha="right", va="top", color="#555555")
        axis.plot([begin, end], [place, place], color="#c9c9c9", linewidth=1, zorder=0)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(picture.zero)
    charts.over_time(axis)


def _draw_bar(axis: Any, bar: Bar, place: float) -> None:
    low, high = axis.get_xlim()
    begin, end = max(bar.begin, low), min(bar.end, high)
    colour = WAITING if bar.is_waiting else STEP if bar.is_step else BUSY
    edge = {"edgecolor": "#bbbbbb" if bar.is_waiting else STEP if bar.is_step else GROUND, "linewidth": 0.6}
    height = HEIGHT * 0.62 if bar.is_step else HEIGHT
    charts.bar(axis, place, begin, end, colour, height, zorder=2 if bar.is_step else 1, **edge)


def _name_bar(axis: Any, bar: Bar, place: float, others: list[Bar], paper: _Paper) -> None:
    """In it, or beside it where there is room; not where its steps are shown."""
    low, high = axis.get_xlim()
    begin, end = max(bar.begin, low), min(bar.end, high)
    if any(other.is_step and begin <= other.begin < end for other in others):
        return
    points = LETTER * len(bar.name) + 6
    wide = points / _points(axis, 1)
    look = {"fontsize": 8.5, "ha": "center", "va": "center", "color": "#555555", "zorder": 3}
    middles = [begin + (end - begin) * t for t in (0.5, 0.3, 0.7, 0.15, 0.85)]
    middles = [x for x in middles if begin <= x - wide / 2 and x + wide / 2 <= end]
    if not middles:
        beside = [end + wide / 2, begin - wide / 2]
        look["bbox"] = {"boxstyle": "square,pad=0.1", "facecolor": GROUND, "linewidth": 0}
        middles = [x for x in beside if low < x - wide / 2 and x + wide / 2 < high and not _meets(others, bar, x, wide)]
    for x in middles:
        if not paper.is_crossed(paper.at((x, place)), points):
            paper.take(paper.at((x, place)), points)
            axis.text(x, place, bar.name, **look)
            return


def _meets(others: list[Bar], bar: Bar, x: float, wide: float) -> bool:
    return any(other is not bar and other.begin < x + wide / 2 and x - wide / 2 < other.end for other in others)


def _points(axis: Any, us: float) -> float:
    """How wide a time is on paper."""
    low, high = axis.get_xlim()
    return float(us / (high - low) * axis.figure.get_figwidth() * (RIGHT - LEFT) * 72)


def _way(axis: Any, picture: Picture, arrow: Arrow, places: list[float]) -> Way:
    """From edge to edge of the bars that it joins."""
    source, target = places[arrow.source], places[arrow.target]
    down = 1 if target > source else -1
    begin = max(arrow.begin, axis.get_xlim()[0])  # a cause may lie before what is shown
    return (begin, source + down * HEIGHT * 0.3), (arrow.end, target - down * HEIGHT * 0.5)


class _Paper:
    """Where there is room. Points (1/72 inch), from the axis's left and downwards."""

    def __init__(self, axis: Any, places: list[float], ways: list[Way]) -> None:
        self._axis = axis
        self._lanes = [INCHES * 72 * place for place in places]
        self.ways = [(self.at(begin), self.at(end)) for begin, end in ways]
        self._taken: list[tuple[float, float, float]] = []  # x and y of the middle, width

    def at(self, point: Point) -> Point:
        return _points(self._axis, point[0] - self._axis.get_xlim()[0]), INCHES * 72 * point[1]

    def take(self, middle: Point, width: float) -> None:
        self._taken.append((*middle, width))

    def room(self, middle: Point, width: float, own: int) -> float:
        """How good a place it is: far from other labels and ways, and beside the lanes; rather on the way `own` than
        beside it, unless that would hide it.
        """
        x, y = middle
        price = 0.0
        if self._from_way(middle, width, own) >= 0:
            price = AWAY
        elif math.dist(*self.ways[own]) < 3 * HIGH:
            price = 2 * AWAY
        labels = (max(abs(x - a) - (width + w) / 2, abs(y - b) - HIGH) for a, b, w in self._taken)
        label = min(labels, default=LIMIT)
        way = min((self._from_way(middle, width, i) for i in range(len(self.ways)) if i != own), default=LIMIT)
        lane = min(abs(y - lane) for lane in self._lanes)
        heads = (max(abs(x - a) - width / 2, abs(y - b) - HIGH / 2) for _, (a, b) in self.ways)
        price += 1000 * (label < 0) + 100 * (min(heads) < HEAD)
        return -price + 2 * min(label, LIMIT) + min(way, LIMIT) + min(lane, LIMIT)

    def _from_way(self, middle: Point, width: float, index: int) -> float:
        """Negative: it crosses the label."""
        (x0, y0), (x1, y1) = self.ways[index]
        found = LIMIT
        for step in range(41):
            x, y = x0 + (x1 - x0) * step / 40, y0 + (y1 - y0) * step / 40
            found = min(found, max(abs(x - middle[0]) - width / 2, abs(y - middle[1]) - HIGH / 2))
        return found

    def is_crossed(self, middle: Point, width: float) -> bool:
        return any(self._from_way(middle, width, i) < 0 for i in range(len(self.ways)))


def _label_arrows(axis: Any, picture: Picture, ways: list[Way], paper: _Paper) -> None:
    """Each gets its kind's number and its time, where on its way there is most room; those with little choice first."""
    for index in sorted(range(len(ways)), key=lambda i: abs(ways[i][0][1] - ways[i][1][1])):
        arrow, (begin, end) = picture.arrows[index], ways[index]
        text = f"{arrow.kind + 1}  +{arrow.end - arrow.begin:.0f}"
        width = LETTER * len(text) + 8
        points = [(begin[0] + (end[0] - begin[0]) * t, begin[1] + (end[1] - begin[1]) * t) for t in _FRACTIONS]
        aside = (width / 2 + 4) / _points(axis, 1)
        points += [(x + sign * aside, y) for x, y in points for sign in (1, -1)]
        place = max(points, key=lambda point: paper.room(paper.at(point), width, index))
        paper.take(paper.at(place), width)
        look = {
            "boxstyle": "round,pad=0.22",
            "facecolor": "white",
            "edgecolor": SUBJECTS[arrow.whose],
            "linewidth": 0.9,
        }
        axis.text(*place, text, fontsize=9, ha="center", va="center", bbox=look, zorder=6, color=INK)


_FRACTIONS = [0.5 + sign * step * 0.02 for step in range(12) for sign in (1, -1)]  # of an arrow's way; the middle first


# ---- annotations --------------------------------------------------------------------------------------------------


def _key(picture: Picture) -> list[str]:
    used = {arrow.kind for arrow in picture.arrows}
    lines = ["On each arrow: its kind, as listed here, and how many µs lie between its ends."]
    for kind, text in enumerate(picture.kinds):
        if kind in used:
            first, *more = textwrap.wrap(text, 118)
            lines += [f"{kind + 1}   {first}", *(f"     {line}" for line in more)]
    return lines


def _draw_key(figure: Figure, key: list[str], note: str, top: float, height: float) -> None:
    at = top - 0.56 / height
    for line in key:
        figure.text(0.02, at, line, fontsize=10, va="center")
        at -= LINE / height
    figure.text(RIGHT, at, note, fontsize=9, va="center", ha="right", color="#777777", style="italic")


def _legend_rows(picture: Picture) -> int:
    return 1 if len(picture.subjects) <= 2 else 2


def _legend(figure: Figure, picture: Picture) -> None:
    handles: list[Any] = []
    for whose, name in enumerate(picture.subjects):
        handles.append(Line2D([], [], color=SUBJECTS[whose], linewidth=1.6, marker=">", markersize=5, label=name))
    handles += [
        Patch(color=BUSY, label="awake"),
        Patch(facecolor=WAITING, edgecolor="#bbbbbb", linewidth=0.6, label="waits"),
    ]
    if any(bar.is_step for bar in picture.bars):
        handles.insert(-1, Patch(color=STEP, label=picture.steps))
    columns = math.ceil(len(handles) / _legend_rows(picture))
    place: dict[str, Any] = {
        "loc": "upper left",
        "bbox_to_anchor": (0.01, 0.998),
        "ncols": columns,
        "columnspacing": 1.6,
    }
    figure.legend(handles=handles, frameon=False, fontsize=9.5, handlelength=1.6, **place)
