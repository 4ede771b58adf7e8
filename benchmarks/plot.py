"""`python -m benchmarks --plot`: the rows of a result as a picture. Needs matplotlib.

A row is a lane. On the left is what it took, ours beside C's and the others', each with its median and its spread; on
the right the figure that is judged, beside its anchor and what it must be.
"""

from __future__ import annotations

import html
import io
import textwrap
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from benchmarks import report
from benchmarks.measure import Spread
from benchmarks.plot_style import BLUE, GREEN, GRID, INK, OTHERS, RED, SETTINGS
from benchmarks.report import Row

_LANE, _HEAD, _FOOT = 0.46, 1.3, 0.75  # inches: a lane, above the first block, below each
_WIDTH, _LEFT, _MIDDLE, _RIGHT = 14.0, 0.27, 0.665, 0.985  # inches; parts of the width


def write(rows: list[Row], file: Path, headline: str, table: str) -> None:
    """Writes FILE.png or FILE.html, which stands alone: no script, nothing to fetch."""
    if file.suffix == ".png":
        content = io.BytesIO()
        with matplotlib.rc_context(SETTINGS):
            draw(rows, headline).savefig(content, format="png", dpi=110)
        file.write_bytes(content.getvalue())
    else:
        file.write_text(_page(rows, headline, table), encoding="utf-8")


def _page(rows: list[Row], headline: str, table: str) -> str:
    drawn = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        draw(rows, "").savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>vkshare: benchmarks</title>\n'
        "<style>body { font: 15px sans-serif; margin: 2em; color: #222 } svg { max-width: 100%; height: auto }\n"
        "pre { overflow-x: auto; font-size: 13px }</style>\n"
        f"<h1>Benchmarks</h1>\n<p>{html.escape(headline)}</p>\n{svg}\n<pre>{html.escape(table)}</pre>\n</html>\n"
    )


def draw(rows: list[Row], headline: str) -> Figure:
    """Rows that follow each other and whose values and figures are of one kind stand in one block."""
    blocks = [list(block) for _, block in groupby(rows, key=_axes)]
    height = _HEAD + sum(len(block) * _LANE + _FOOT for block in blocks)
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    if headline:
        figure.text(0.01, 1 - 0.25 / height, headline, fontsize=9.5, va="center")
    names: dict[str, str] = {}  # of the others: their colours
    top = height - _HEAD
    for block in blocks:
        bottom = top - len(block) * _LANE
        judged_apart = block[0].kind in (report.RATIO, report.OVER_C)
        right = _MIDDLE if judged_apart else _RIGHT
        place = (_LEFT, bottom / height, right - _LEFT - 0.025, (top - bottom) / height)
        values = figure.add_axes(place)
        _draw_values(values, block, names, judged=not judged_apart)
        if judged_apart:
            figures = figure.add_axes((_MIDDLE, bottom / height, _RIGHT - _MIDDLE, (top - bottom) / height))
            _draw_figures(figures, block)
        top = bottom - _FOOT
    _draw_legend(figure, names, height)
    return figure


def _axes(row: Row) -> tuple[str, str, bool, str]:
    """Return the key of the block's axes: blocks with the same key share them."""
    return row.kind, row.unit, row.is_rate, row.against if row.kind == report.RATIO else ""


# ---- values ------------------------------------------------------------------------------------------------------


def _draw_values(axes: Any, block: list[Row], names: dict[str, str], *, judged: bool) -> None:
    reported = report.value_text(block[0])
    for lane, row in enumerate(block):
        sides = [(row.ours, BLUE)] + ([(row.theirs, INK)] if row.theirs else [])
        for name, spread in row.others.items():
            sides.append((spread, names.setdefault(name, OTHERS[len(names) % len(OTHERS)])))
        for i, (spread, colour) in enumerate(sides):
            _mark(axes, spread, lane + (i - (len(sides) - 1) / 2) * 0.62 / max(len(sides), 3), colour)
        if judged and row.must is not None:
            _must(axes, row, lane)
    _lanes(axes, [_label(row) for row in block])
    least = min(s.least for row in block for s in (row.ours, row.theirs, *row.others.values()) if s is not None)
    _scale(axes, reported, logarithmic=least > 0)
    if block[0].unit == "things":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if least <= 0:
        _look_at(
            axes, [s.median for row in block for s in (row.ours, row.theirs, *row.others.values()) if s is not None]
        )
    unit = "operations a second" if block[0].is_rate else block[0].unit or "time"
    axes.set_xlabel(f"{unit}: median, and from the least to the most of all rounds", fontsize=9)


def _label(row: Row) -> str:
    what = textwrap.fill(row.what, 44, max_lines=2)
    return f"{what} ({row.place})" if "\n" in what else f"{what}\n{row.place}"


def _draw_figures(axes: Any, block: list[Row]) -> None:
    for lane, row in enumerate(block):
        if row.figure is None:
            continue
        _mark(axes, row.figure, lane, {"met": GREEN, "not met": RED}.get(row.verdict, BLUE))
        text = report.figure_text(row, row.figure.median)
        axes.annotate(text, (row.figure.median, lane), (0, 8), **_LABEL)
        if row.must is not None:
            _must(axes, row, lane)
    ratio = block[0].kind == report.RATIO
    axes.axvline(1 if ratio else 0, color=INK, linewidth=1.2)
    _lanes(axes, [""] * len(block))
    figures = [row.figure for row in block if row.figure is not None]
    positive = bool(figures) and min(figure.least for figure in figures) > 0
    if ratio and positive:
        _scale(axes, lambda value: f"{value:g}", logarithmic=True)
    else:
        _scale(axes, lambda value: f"{value:g}" if ratio else report.duration(value), logarithmic=False)
        musts = [row.must.value for row in block if row.must is not None]
        _look_at(axes, [*(figure.median for figure in figures), *musts])
    axes.set_xlabel(f"times {block[0].against}" if ratio else "more than C", fontsize=9)


# ---- what both are made of ---------------------------------------------------------------------------------------


def _mark(axes: Any, spread: Spread, at: float, colour: str) -> None:
    axes.plot([spread.least, spread.most], [at, at], color=colour, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
    axes.plot([spread.median], [at], marker="o", color=colour, markersize=6, zorder=4)


def _must(axes: Any, row: Row, lane: int) -> None:
    """A bar across the lane, with an arrow to the good side."""
    assert row.must is not None
    colour = {"met": GREEN, "not met": RED}.get(row.verdict, INK)
    axes.plot([row.must.value] * 2, [lane - 0.36, lane + 0.36], color=colour, linewidth=2)
    side = ">" if row.must.at_least else "<"
    axes.plot([row.must.value], [lane + 0.36], marker=side, color=colour, markersize=6, clip_on=False)


def _lanes(axes: Any, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=9.5)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _scale(axes: Any, reported: Callable[[float], str], *, logarithmic: bool) -> None:
    if logarithmic:
        axes.set_xscale("log")
        axes.margins(x=0.08)
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: reported(value)))
    axes.tick_params(axis="x", labelsize=9)


def _look_at(axes: Any, values: list[float]) -> None:
    """A round that something interrupted must not make the others too small to be seen: its line goes out of sight."""
    most = max((abs(value) for value in values), default=0) or 1.0
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, -most / 2), min(high, 3 * most))


def _draw_legend(figure: Figure, names: dict[str, str], height: float) -> None:
    dots = {"vkshare": BLUE, "C": INK, **names}
    handles = [Line2D([], [], marker="o", color=colour, label=name) for name, colour in dots.items()]
    handles += [Line2D([], [], color=colour, linewidth=2, label=f"a target, {how}") for colour, how in _TARGETS]
    place = (0.01, 1 - 0.42 / height)
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=place, ncols=min(len(handles), 7), frameon=False, fontsize=9
    )


_LABEL: Any = {
    "textcoords": "offset points",
    "fontsize": 9,
    "ha": "center",
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
    "zorder": 5,
}
_TARGETS = ((GREEN, "met"), (RED, "not met"))
