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

from benchmarks import plot_style, report
from benchmarks.measure import Spread
from benchmarks.plot_style import BLUE, GREEN, INK, OTHERS, RED, SETTINGS
from benchmarks.report import Row


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
    heights = [len(block) for block in blocks]
    size = 14, 1 + 0.6 * len(blocks) + 0.46 * len(rows)  # inches
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    grid = figure.add_gridspec(len(blocks), 2, width_ratios=(5, 4), height_ratios=heights)
    colours = {"vkshare": BLUE, "C": INK}
    for place, block in enumerate(blocks):
        judged_apart = block[0].kind in (report.RATIO, report.OVER_C)
        values = figure.add_subplot(grid[place, 0] if judged_apart else grid[place, :])
        _draw_values(values, block, colours, judged=not judged_apart)
        if judged_apart:
            _draw_figures(figure.add_subplot(grid[place, 1]), block)
    handles = [Line2D([], [], marker="o", color=colour, label=name) for name, colour in colours.items()]
    for colour, how in ((GREEN, "met"), (RED, "not met")):
        handles.append(Line2D([], [], color=colour, linewidth=2, label=f"a target, {how}"))
    look: Any = {"ncols": 7, "frameon": False, "fontsize": 9, "title_fontsize": 9.5, "alignment": "left"}
    figure.legend(handles=handles, loc="outside upper left", title=headline, **look)
    return figure


def _axes(row: Row) -> tuple[str, str, bool, str]:
    """Return the key of the block's axes: blocks with the same key share them."""
    return row.kind, row.unit, row.is_rate, row.against if row.kind == report.RATIO else ""


def _draw_values(axes: Any, block: list[Row], colours: dict[str, str], *, judged: bool) -> None:
    """`colours` gets those of the others."""
    spreads: list[Spread] = []
    for lane, row in enumerate(block):
        sides = {"vkshare": row.ours, **({"C": row.theirs} if row.theirs else {}), **row.others}
        for i, (name, spread) in enumerate(sides.items()):
            colour = colours.setdefault(name, OTHERS[(len(colours) - 2) % len(OTHERS)])
            _mark(axes, spread, lane + (i - (len(sides) - 1) / 2) * 0.62 / max(len(sides), 3), colour)
        spreads += sides.values()
        if judged:
            _must(axes, row, lane)
    plot_style.lanes(axes, range(len(block)), [_label(row) for row in block])
    positive = min(spread.least for spread in spreads) > 0
    _scale(axes, report.value_text(block[0]), [spread.median for spread in spreads], logarithmic=positive)
    if block[0].unit == "things":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    unit = "operations a second" if block[0].is_rate else block[0].unit or "time"
    axes.set_xlabel(f"{unit}: median, and from the least to the most of all rounds", fontsize=9)


def _label(row: Row) -> str:
    what = textwrap.fill(row.what, 44, max_lines=2)
    return f"{what} ({row.place})" if "\n" in what else f"{what}\n{row.place}"


def _draw_figures(axes: Any, block: list[Row]) -> None:
    figures = [(lane, row, row.figure) for lane, row in enumerate(block) if row.figure is not None]
    for lane, row, figure in figures:
        _mark(axes, figure, lane, _VERDICTS.get(row.verdict, BLUE))
        text = report.figure_text(row, figure.median)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
        place = figure.median, lane
        axes.annotate(text, place, (0, 8), textcoords="offset points", fontsize=9, ha="center", bbox=box, zorder=5)
        _must(axes, row, lane)
    is_ratio = block[0].kind == report.RATIO
    axes.axvline(1 if is_ratio else 0, color=INK, linewidth=1.2)
    plot_style.lanes(axes, range(len(block)), [""] * len(block))
    positive = bool(figures) and min(figure.least for _, _, figure in figures) > 0
    seen = [figure.median for _, _, figure in figures] + [row.must.value for row in block if row.must is not None]
    reported = "{:g}".format if is_ratio else report.duration
    _scale(axes, reported, seen, logarithmic=is_ratio and positive)
    axes.set_xlabel(f"times {block[0].against}" if is_ratio else "more than C", fontsize=9)


# ---- what both are made of ---------------------------------------------------------------------------------------


_VERDICTS = {"met": GREEN, "not met": RED}


def _mark(axes: Any, spread: Spread, at: float, colour: str) -> None:
    axes.plot([spread.least, spread.most], [at, at], color=colour, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
    axes.plot([spread.median], [at], marker="o", color=colour, markersize=6, zorder=4)


def _must(axes: Any, row: Row, lane: int) -> None:
    """A bar across the lane, with an arrow to the good side; nothing without a target."""
    if row.must is not None:
        colour, side = _VERDICTS.get(row.verdict, INK), ">" if row.must.at_least else "<"
        axes.plot([row.must.value] * 2, [lane - 0.36, lane + 0.36], color=colour, linewidth=2)
        axes.plot([row.must.value], [lane + 0.36], marker=side, color=colour, markersize=6, clip_on=False)


def _scale(axes: Any, reported: Callable[[float], str], values: list[float], *, logarithmic: bool) -> None:
    """A round that something interrupted must not make the others too small to be seen: its line goes out of sight."""
    low, high = axes.get_xlim()
    if logarithmic:
        axes.set_xscale("log")
        axes.margins(x=0.08)
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        most = max(map(abs, values), default=0) or 1.0
        axes.set_xlim(max(low, -most / 2), min(high, 3 * most))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: reported(value)))
    axes.tick_params(axis="x", labelsize=9)
