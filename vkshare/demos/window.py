"""The scene of the shared demo in a window: it is laid out anew for each size that the window keeps.

A graph tells how long frames took; it is drawn with the device's own triangles.
"""

from __future__ import annotations

import time
from collections import deque

import numpy as np
from PIL import Image, ImageDraw

import vkshare
from vkshare import CommandList, Device, Surface, View
from vkshare.demos.layout import SMALLEST, Layout, Rect
from vkshare.demos.lettering import FAINT, PARTY_COLOURS, SOFT, Clock, Facts, Layer, Lettering, write
from vkshare.demos.painter import Painter
from vkshare.demos.solids import Array
from vkshare.demos.stage import Stage
from vkshare.util.closing import Scoped

_TURN = 8.0  # seconds of the cube's revolution
_SETTLED = 0.1  # seconds that a size must stay: laying out takes several frames' time, so until then it is stretched
_LAYERS = 2  # of the live text: one is written while a frame still reads the other


class Show(Scoped):
    """Draws frames of whatever size comes. Owns surfaces: close() it before the device."""

    def __init__(self, stage: Stage, frames: int | None) -> None:
        self._device = stage.device
        self._format = stage.swapchain.format
        self._facts = facts(stage, frames)
        self._clock = Clock()
        self._times = FrameTimes()
        self._picture: Picture | None = None
        self._size = (0, 0)  # the last frame's
        self._since = 0.0  # seconds of time.monotonic() when it came

    def draw(self, frame: vkshare.Frame, number: int, seconds: float) -> None:
        """One frame of it: for Stage.play()."""
        if frame.is_hidden:
            return
        self._times.tick()
        _, rate = self._clock.tick()
        size = max(frame.width, SMALLEST[0]), max(frame.height, SMALLEST[1])
        self._picture_of(size).draw(frame, number, seconds, rate, self._times)

    def _picture_of(self, size: tuple[int, int]) -> Picture:
        """The one for that size, or while sizes come and go, the one that there is."""
        now = time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        if self._picture is not None and self._picture.size != size and now - self._since >= _SETTLED:
            self.close()
        if self._picture is None:
            self._picture = Picture(self._device, size, self._format, self._facts)
        return self._picture

    def close(self) -> None:
        """Idempotent."""
        if self._picture is not None:
            self._picture.close()
        self._picture = None


class Picture:
    """The scene, its text and the graph, laid out for one size. Frames of another one are scaled."""

    def __init__(self, device: vkshare.Device, size: tuple[int, int], format: str, facts: Facts) -> None:
        self.size = size
        self._device = device
        self._format = format
        layout = Layout(*size)
        self._painter = Painter(device, layout, format=format)
        with Layer(device, layout.text_area) as fixed:
            fixed.draw(self._painter.backdrop, Lettering(layout, facts).draw_fixed)
        self._lettering = Lettering(layout, facts, layout.live_area[:2])
        self._live = [Layer(device, layout.live_area) for _ in range(_LAYERS)]
        self._graph = Graph(device, layout)
        self._apart: vkshare.Surface | None = None  # what is scaled is drawn there first

    def draw(self, frame: vkshare.Frame, number: int, seconds: float, rate: float, times: FrameTimes) -> None:
        """All of a frame, submitted."""
        live = self._live[number % _LAYERS]
        live.upload(self._lettering.draw_live, number, seconds, rate)
        is_apart = (frame.width, frame.height) != self.size
        target = self._surface_apart() if is_apart else frame.view
        commands = self._painter.record(target, number, seconds / _TURN % 1)
        live.record(commands, target)
        self._graph.record(commands, target, times)
        if is_apart:
            commands.blit(target, frame.view)
        self._device.submit(commands)

    def _surface_apart(self) -> vkshare.Surface:
        if self._apart is None:
            self._apart = self._device.create_surface(*self.size, self._format)
            self._apart.acquire(0)
        return self._apart

    def close(self) -> None:
        """Idempotent."""
        for each in (self._painter, *self._live, self._graph, self._apart):
            if each is not None:
                each.close()


def facts(stage: Stage, frames: int | None) -> Facts:
    """Return the caption about the presentation."""
    swapchain = stage.swapchain
    by = "present fences" if swapchain.statistics().by_fences else "the acquire history"
    proof = f"retired by {by}" if stage.device.backend == "vulkan" else "no Vulkan below"
    mine = f"{swapchain.present_mode}, {swapchain.image_count} images, {proof}"
    ending = ("Esc", "ends it") if stage.window is not None else ("end", f"after {frames} frames")
    where = "in a window" if stage.window is not None else "not shown"
    lines = (("draw", "the device's own commands"), ("show", mine), ending)
    return Facts(stage.device.adapter.name, frames, f"One scene, {where}.", lines)


# ---- the graph -----------------------------------------------------------------------------------------------------


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
        # Pixels: of a bar, and from one to the next.
        self._bar = max(1, round(2 * layout.unit))
        self._step = self._bar + round(layout.unit)
        self._columns = min(KEPT, self._plot[2] // self._step)

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

    def _triangles(self, recent: Array, top: float) -> Array:
        x, y, width, height = self._panel
        left, plot_top, plot_width, plot_height = self._plot
        hair = max(1, round(self._layout.unit))
        panel = [(x, y, width, height), (x, y, width, hair)]
        rows = [round(plot_top + plot_height * (1 - line / top)) for line in _LINES if top / 8 < line < top]
        heights = np.clip(np.round(plot_height * recent / top), 1, plot_height)
        lefts = left + plot_width - self._step * np.arange(len(recent), 0, -1)
        bars = np.stack([lefts, plot_top + plot_height - heights, np.full(len(recent), self._bar), heights], 1)
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
    rows = np.empty((len(x), 6, 6), np.float32)
    rows[:, :, 0] = 2 * (x[:, None] + width[:, None] * np.array([0, 1, 1, 0, 1, 0])) / size[0] - 1
    rows[:, :, 1] = 2 * (y[:, None] + height[:, None] * np.array([0, 0, 1, 0, 1, 1])) / size[1] - 1
    alpha = colours[:, 3:]
    rows[:, :, 2:] = np.concatenate([colours[:, :3] * alpha, alpha], 1)[:, None]
    return rows.reshape(-1, 6)
