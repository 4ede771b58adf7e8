"""How long frames took, as a graph that is drawn with the device's own triangles."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
from PIL import Image, ImageDraw

from vkshare import CommandList, Device, Surface, View
from vkshare.demos.layout import Layout, Rect
from vkshare.demos.lettering import FAINT, PARTY_COLOURS, SOFT, Layer, write
from vkshare.demos.solids import Array

KEPT = 480  # frames: what the widest graph shows
_PAUSE = 1.0  # seconds: longer gaps, as of a minimised window, are not frame times
_CEILINGS = (5, 10, 20, 40, 100, 200, 400, 1000)  # milliseconds that the top may stand for
_LINES = (1000 / 60, 1000 / 30)  # milliseconds: bars above the first are amber, above the second red
_TOLERANCE = 1.04  # of a line: clocks are not that exact
_RELABELLED = 0.25  # seconds: numbers that change faster cannot be read

# Colours as stored, 0 to 1, not premultiplied.
_PANEL = (0.05, 0.045, 0.13, 0.72)
_EDGE = (0.84, 0.82, 1.0, 0.16)
_LINE = (0.84, 0.82, 1.0, 0.34)
_BARS = np.array([(r / 255, g / 255, b / 255, 0.92) for r, g, b, _ in PARTY_COLOURS])


class FrameTimes:
    """The times of the last frames, in milliseconds."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=KEPT)
        self._last: float | None = None

    def tick(self, now: float | None = None) -> None:
        """A frame begins. `now`: seconds of time.perf_counter()."""
        now = time.perf_counter() if now is None else now
        if self._last is not None and now - self._last < _PAUSE:
            self.recent.append(1000 * (now - self._last))
        self._last = now


class Graph:
    """Bars in a panel; the newest frame is on the right. Owns the surface of its words."""

    def __init__(self, device: Device, layout: Layout) -> None:
        self._layout = layout
        self._panel = layout.graph
        self._plot = plot_of(layout)
        x, y, width, _ = self._panel
        self._words = Layer(device, (x, y, width, self._plot[1] - y))
        self._labelled = -np.inf

    def record(self, commands: CommandList, target: Surface | View, times: FrameTimes) -> None:
        """Draws it over the target, which has the layout's size."""
        recent = np.array(list(times.recent)[-self._columns :])
        top = ceiling(recent)
        commands.draw_triangles(target, self._triangles(recent, top))
        now = time.perf_counter()
        if now - self._labelled > _RELABELLED:
            self._labelled = now
            self._words.upload(self._write, recent, top)
        self._words.record(commands, target)

    def close(self) -> None:
        """Idempotent."""
        self._words.close()

    # ---- bars -----------------------------------------------------------------------------------------------------

    @property
    def _step(self) -> tuple[int, int]:
        """Pixels: of a bar, and from one to the next."""
        wide = max(1, round(2 * self._layout.unit))
        return wide, wide + round(self._layout.unit)

    @property
    def _columns(self) -> int:
        return min(KEPT, self._plot[2] // self._step[1])

    def _triangles(self, recent: Array, top: float) -> Array:
        x, y, width, height = self._panel
        left, plot_top, plot_width, plot_height = self._plot
        hair = max(1, round(self._layout.unit))
        panel = [(x, y, width, height), (x, y, width, hair)]
        rows = [round(plot_top + plot_height * (1 - line / top)) for line in _LINES if top / 8 < line < top]
        bar, step = self._step
        heights = np.clip(np.round(plot_height * recent / top), 1, plot_height)
        lefts = left + plot_width - step * np.arange(len(recent), 0, -1)
        bars = np.stack([lefts, plot_top + plot_height - heights, np.full(len(recent), bar), heights], 1)
        kinds = np.searchsorted(np.array(_LINES) * _TOLERANCE, recent)
        return quads(
            np.array([*panel, *bars, *((left, row, plot_width, hair) for row in rows)]),
            np.array([_PANEL, _EDGE, *_BARS[kinds], *[_LINE] * len(rows)]),
            (self._layout.width, self._layout.height),
        )

    # ---- words ----------------------------------------------------------------------------------------------------

    def _write(self, image: Image.Image, recent: Array, top: float) -> None:
        draw = ImageDraw.Draw(image)
        unit = self._layout.unit
        pad, baseline = round(12 * unit), round(22 * unit)
        size = round(17 * unit)
        middle = f"{np.median(recent):.1f} ms" if len(recent) else "- ms"
        write(draw, (image.width - pad, baseline), middle, size, SOFT, "rs")
        if self._layout.is_wide:
            write(draw, (pad, baseline), "frame time", size, FAINT, "ls")
            write(draw, (pad + round(96 * unit), baseline), f"0 to {top} ms", round(14 * unit), FAINT, "ls")


def plot_of(layout: Layout) -> Rect:
    """Where the bars stand in the graph's rectangle."""
    x, y, width, height = layout.graph
    pad, head = round(12 * layout.unit), round(30 * layout.unit)
    return x + pad, y + head, width - 2 * pad, height - head - max(1, round(10 * layout.unit))


def ceiling(recent: Array) -> int:
    """Milliseconds that the graph's top stands for: nearly all of the times are below. One slow frame is cut off."""
    most = np.percentile(recent, 98) if len(recent) else 0
    return next((top for top in _CEILINGS if most <= top), _CEILINGS[-1])


def quads(rects: Array, colours: Array, size: tuple[int, int]) -> Array:
    """(N, 6) rows for draw_triangles(): rectangles (n, 4) in pixels of a target of that size, colours (n, 4)."""
    x, y, width, height = np.asarray(rects, float).T
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y), (x + width, y + height), (x, y + height)]
    rows = np.empty((len(x), 6, 6), np.float32)
    for index, (across, down) in enumerate(corners):
        rows[:, index, 0] = 2 * across / size[0] - 1
        rows[:, index, 1] = 2 * down / size[1] - 1
    alpha = colours[:, 3:]
    rows[:, :, 2:] = np.concatenate([colours[:, :3] * alpha, alpha], 1)[:, None]
    return rows.reshape(-1, 6)
