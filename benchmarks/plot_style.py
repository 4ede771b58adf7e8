"""How the project's pictures look: colours and matplotlib settings, without matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Okabe and Ito's colours, which readers with colour blindness can distinguish.
BLUE = "#56b4e9"
ORANGE = "#e69f00"
GREEN = "#007a5a"
RED = "#d55e00"
GREY = "#b8b8b8"
INK = "#222222"
GRID = "#e4e4e4"
OTHERS = (ORANGE, "#cc79a7", "#0072b2", "#8c6d1f", "#777777")

SETTINGS: Any = {  # a RcParams-like dict; its type is matplotlib's, which may be missing
    "font.size": 11,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "svg.fonttype": "path",  # the same everywhere
    "svg.hashsalt": "vkshare",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "text.color": INK,
}


def lanes(axes: Any, places: Sequence[float], names: list[str]) -> None:
    """One name a lane, the first at the top; lines for the values, behind everything."""
    axes.set_yticks(places, names, fontsize=9.5)
    axes.set_ylim(max(places) + 0.55, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


NEEDS_MATPLOTLIB = "matplotlib draws it: python -m pip install 'matplotlib>=3.8' (or 'vkshare[plot]')"
