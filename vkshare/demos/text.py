"""The text demo: a 2D library writes into a surface's own memory, and a renderer puts that over its picture."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

import vkshare
from vkshare.demos import choice
from vkshare.demos.inks import INKS, Colour, Ink
from vkshare.demos.layout import Layout, Rect
from vkshare.demos.options import Options
from vkshare.demos.painter import Painter
from vkshare.errors import UnsupportedError

_FOR_WRITER, _FOR_RENDERER = 0, 1  # keys
_GLASS: Colour = (0.05, 0.05, 0.14, 0.55)
_WHITE: Colour = (1.0, 1.0, 1.0, 1.0)
_SOFT: Colour = (0.75, 0.74, 0.88, 1.0)
_CYAN: Colour = (0.27, 0.84, 0.93, 1.0)
_AMBER: Colour = (1.0, 0.72, 0.30, 0.9)
_TRACK: Colour = (1.0, 1.0, 1.0, 0.14)
_BARS = 24


def run(
    options: Options, library: str, two_devices: bool, progress: Callable[[int], None] = lambda frames: None
) -> tuple[dict[str, Any], Any]:
    """All frames. Returns the contents of `vkshare demo text --json`, and the last picture as (H, W, 4) uint8 RGBA.

    Raises
    ------
    UnsupportedError
        The library is not installed, or the CPU cannot see the adapter's surfaces.
    """
    ink = INKS[library]
    layout = Layout(options.width, options.height)
    adapter, why = choice.choose(options)
    with ExitStack() as stack:
        renderer = stack.enter_context(vkshare.open(adapter, name="demo renderer"))
        writer = stack.enter_context(vkshare.open(adapter, name="demo writer")) if two_devices else renderer
        letters = stack.enter_context(_letters(writer, layout.text_area, ink.format))
        theirs = letters
        if two_devices:
            with letters.export() as descriptor:
                theirs = stack.enter_context(renderer.open_surface(descriptor))
        canvas = stack.enter_context(renderer.create_surface(layout.width, layout.height, "rgba8unorm"))
        painter = stack.enter_context(Painter(renderer, layout, image=options.image))
        canvas.acquire(0)
        devices = {renderer, writer}
        before = sum(device.statistics().copied_bytes for device in devices)
        page, writing = Page(layout, two_devices), []
        start = time.perf_counter()
        for frame in range(options.frames):
            last, seconds = _write(letters, ink, page, frame, options.frames)
            writing.append(seconds)
            with theirs.access(_FOR_RENDERER, _FOR_WRITER) as view:
                commands = painter.record(canvas, frame, frame / options.frames)
                renderer.submit(commands.composite(view, canvas, at=layout.text_area[:2], alpha=ink.alpha))
            progress(frame + 1)
        renderer.wait_idle()
        seconds = time.perf_counter() - start
        copied = sum(device.statistics().copied_bytes for device in devices) - before
        with theirs.access(_FOR_WRITER, _FOR_WRITER, writable=False):
            alike = bool(np.array_equal(theirs.read(), last))
        written = int(np.count_nonzero(last[..., 3]))
        report = {
            "library": ink.called(),
            "format": letters.format,  # of the surface with the text
            "adapter": adapter.name,
            "why": why,  # it was chosen
            "two_devices": two_devices,
            "width": layout.width,
            "height": layout.height,
            "frames": options.frames,
            "seconds": seconds,
            "frames_per_second": options.frames / seconds,
            "writing": float(np.median(writing)),  # seconds that the library took for a frame's text
            "copied_per_frame": copied / options.frames,  # bytes, by the copy paths of both devices
            "seen_alike": alike,  # the renderer's handle read, bit for bit, what the library had written last
            "written": written,  # pixels that the library drew on, of the last frame
            "output": options.output,
            "ok": alike and written > 0,
        }
        return report, canvas.read()


def _write(letters: vkshare.Surface, ink: type[Ink], page: Page, frame: int, frames: int) -> tuple[Any, float]:
    """Writes a frame's text; returns a copy of the last frame's pixels, and the seconds that it took."""
    with letters.access(_FOR_WRITER, _FOR_RENDERER) as view:
        began = time.perf_counter()
        page.write(ink(view), frame, frames)
        seconds = time.perf_counter() - began
        return (view.array.copy() if frame == frames - 1 else None), seconds


def _letters(device: vkshare.Device, area: Rect, format: str) -> vkshare.Surface:
    """Rows in order, which the CPU sees. It is only composited: SwiftShader shares no linear images to render to."""
    surface = device.create_surface(*area[2:], format, tiling="linear", usage=("sample", "copy"))
    if not surface.is_host_visible:
        surface.close()
        raise UnsupportedError(
            "the text demo", f"the CPU cannot see linear surfaces of {device.adapter.name}", "use --backend cpu"
        )
    return surface


class Page:
    """The text: a panel with a title, facts, a ring that closes, and bars."""

    def __init__(self, layout: Layout, two_devices: bool) -> None:
        self._layout = layout
        self._where = "two devices, one memory" if two_devices else "one device, one memory"

    def write(self, ink: Ink, frame: int, frames: int) -> None:
        """A frame's text and shapes; everything of the one before goes."""
        unit, left = self._layout.unit, self._layout.margin
        _, _, width, height = self._layout.text_area
        inside = width - 2 * left
        ink.clear()
        for top, bottom in self._panels(height - left / 2):
            ink.panel((left / 2, top, width - left, bottom - top), 28 * unit, _GLASS)
        ink.text((left, 132 * unit), "vkshare", 78 * unit, _WHITE)
        ink.text((left, 180 * unit), "text in the surface's own memory", 25 * unit, _SOFT)
        for line, said in enumerate((f"by {ink.called()}", self._where, "no copy, under the same access")):
            baseline = (244 + 36 * line) * unit
            ink.ring((left + 7 * unit, baseline - 8 * unit), 5 * unit, 5 * unit, 1.0, (_CYAN, _AMBER, _SOFT)[line])
            ink.text((left + 28 * unit, baseline), said, 22 * unit, _SOFT)
        self._progress(ink, (left + 82 * unit, height - left - 112 * unit), (frame + 1) / frames, str(frame + 1))
        self._bars(ink, left + 200 * unit, height - left - 44 * unit, inside - 216 * unit, frame)

    def _panels(self, bottom: float) -> list[tuple[float, float]]:
        """Upright pictures have the cube between two."""
        top, unit = self._layout.margin / 2, self._layout.unit
        return [(top, bottom)] if self._layout.is_wide else [(top, 344 * unit), (bottom - 236 * unit, bottom)]

    def _progress(self, ink: Ink, centre: tuple[float, float], done: float, said: str) -> None:
        unit = self._layout.unit
        ink.ring(centre, 68 * unit, 14 * unit, 1.0, _TRACK)
        ink.ring(centre, 68 * unit, 14 * unit, done, _CYAN)
        ink.text((centre[0], centre[1] + 14 * unit), said, 40 * unit, _WHITE, centred=True)

    def _bars(self, ink: Ink, left: float, bottom: float, width: float, frame: int) -> None:
        unit, pitch = self._layout.unit, width / _BARS
        for bar in range(_BARS):
            high = 0.5 + 0.32 * math.sin(bar * 0.55 + frame * 0.11) + 0.16 * math.sin(bar * 1.7 - frame * 0.07)
            height = max(8 * unit, round(136 * high) * unit)
            ink.panel((left + bar * pitch, bottom - height, 0.62 * pitch, height), 0.25 * pitch, _AMBER)
