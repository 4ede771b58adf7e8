"""The text demo: a 2D library writes into a surface's own memory, and a renderer puts that over its picture.

Positions and sizes are pixels, y downwards; colours are (red, green, blue, alpha), 0 to 1, not
premultiplied.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np

import vkshare
from vkshare import View
from vkshare.demos import lettering
from vkshare.demos.layout import Layout, Rect
from vkshare.demos.options import Options, choose
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


def run(options: Options, library: str, two_devices: bool) -> tuple[dict[str, Any], Any]:
    """All frames. Returns the contents of `vkshare demo text --json`, and the last picture as (H, W, 4) uint8 RGBA.

    Raises
    ------
    UnsupportedError
        The library is not installed, or the CPU cannot see the adapter's surfaces.
    """
    ink = INKS[library]
    layout = Layout(options.width, options.height)
    adapter, why = choose(options)
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
        writing: list[float] = []
        last: Any = None  # the pixels of the last frame
        start = time.perf_counter()
        for frame in range(options.frames):
            with letters.access(_FOR_WRITER, _FOR_RENDERER) as view:
                began = time.perf_counter()
                _page(ink(view), layout, two_devices, frame, options.frames)
                writing.append(time.perf_counter() - began)
                last = view.array.copy() if frame == options.frames - 1 else None
            with theirs.access(_FOR_RENDERER, _FOR_WRITER) as view:
                commands = painter.record(canvas, frame, frame / options.frames)
                renderer.submit(commands.composite(view, canvas, at=layout.text_area[:2], alpha=ink.alpha))
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


def _letters(device: vkshare.Device, area: Rect, format: str) -> vkshare.Surface:
    """Rows in order, which the CPU sees. It is only composited: SwiftShader shares no linear images to render to."""
    surface = device.create_surface(*area[2:], format, tiling="linear", usage=("sample", "copy"))
    if not surface.is_host_visible:
        surface.close()
        raise UnsupportedError(
            "the text demo", f"the CPU cannot see linear surfaces of {device.adapter.name}", "use --backend cpu"
        )
    return surface


def _page(ink: Ink, layout: Layout, two_devices: bool, frame: int, frames: int) -> None:
    """A frame's text: a panel with a title, facts, a ring that closes, and bars. All of the one before goes."""
    unit, left = layout.unit, layout.margin
    _, _, width, height = layout.text_area
    inside = width - 2 * left
    ink.clear()
    edge = left / 2, height - left / 2
    upright = [(edge[0], 344 * unit), (edge[1] - 236 * unit, edge[1])]  # they have the cube between two
    for top, bottom in [edge] if layout.is_wide else upright:
        ink.panel((left / 2, top, width - left, bottom - top), 28 * unit, _GLASS)
    ink.text((left, 132 * unit), "vkshare", 78 * unit, _WHITE)
    ink.text((left, 180 * unit), "text in the surface's own memory", 25 * unit, _SOFT)
    where = "two devices, one memory" if two_devices else "one device, one memory"
    for line, said in enumerate((f"by {ink.called()}", where, "no copy, under the same access")):
        baseline = (244 + 36 * line) * unit
        ink.ring((left + 7 * unit, baseline - 8 * unit), 5 * unit, 5 * unit, 1.0, (_CYAN, _AMBER, _SOFT)[line])
        ink.text((left + 28 * unit, baseline), said, 22 * unit, _SOFT)
    x, y = left + 82 * unit, height - left - 112 * unit
    ink.ring((x, y), 68 * unit, 14 * unit, 1.0, _TRACK)
    ink.ring((x, y), 68 * unit, 14 * unit, (frame + 1) / frames, _CYAN)
    ink.text((x, y + 14 * unit), str(frame + 1), 40 * unit, _WHITE, centred=True)
    _bars(ink, unit, left + 200 * unit, height - left - 44 * unit, inside - 216 * unit, frame)


def _bars(ink: Ink, unit: float, left: float, bottom: float, width: float, frame: int) -> None:
    pitch = width / _BARS
    for bar in range(_BARS):
        high = 0.5 + 0.32 * math.sin(bar * 0.55 + frame * 0.11) + 0.16 * math.sin(bar * 1.7 - frame * 0.07)
        height = max(8 * unit, round(136 * high) * unit)
        ink.panel((left + bar * pitch, bottom - height, 0.62 * pitch, height), 0.25 * pitch, _AMBER)


# ---- the libraries: classes with the same methods ------------------------------------------------------------------


Colour = tuple[float, float, float, float]
Box = tuple[float, float, float, float]  # x, y, width, height
_TOP = -math.pi / 2  # where a ring begins; it goes clockwise


class PillowInk:
    """Round shapes are drawn as masks: Pillow does not smooth edges."""

    format = "rgba8unorm"
    alpha = "straight"

    def __init__(self, view: View) -> None:
        image = view.pillow()
        from PIL import ImageDraw

        self._size = image.size
        self._draw = ImageDraw.Draw(image)

    @staticmethod
    def called() -> str:
        return f"Pillow {metadata.version('pillow')}"

    def clear(self) -> None:
        """Nothing anywhere: alpha 0."""
        self._draw.rectangle((0, 0, *self._size), fill=(0, 0, 0, 0))

    def panel(self, box: Box, radius: float, colour: Colour) -> None:
        """A rectangle with round corners."""
        x, y, width, height = map(round, box)
        self._draw.bitmap((x, y), lettering.panel_mask(width, height, round(radius)), fill=_bytes(colour))

    def ring(self, centre: tuple[float, float], radius: float, width: float, turn: float, colour: Colour) -> None:
        """From the top clockwise; `turn` is 0 to 1."""
        lettering.ring(self._draw, centre, radius, width, round(turn * 720) / 2, _bytes(colour))

    def text(self, at: tuple[float, float], said: str, size: float, colour: Colour, centred: bool = False) -> None:
        """`at` is the left end of the baseline, or its middle."""
        place, anchor = (round(at[0]), round(at[1])), "ms" if centred else "ls"
        lettering.write(self._draw, place, said, round(size), _bytes(colour), anchor)


class CairoInk:
    """The "toy" text of cairo: a program that writes more takes Pango."""

    format = "bgra8unorm"
    alpha = "premultiplied"

    def __init__(self, view: View) -> None:
        surface = view.cairo()
        import cairocffi

        self._cairo = cairocffi
        self._context = cairocffi.Context(surface)
        self._context.select_font_face("sans-serif")

    @staticmethod
    def called() -> str:
        import cairocffi

        return f"cairo {cairocffi.cairo_version_string()}"

    def clear(self) -> None:
        self._context.set_operator(self._cairo.OPERATOR_CLEAR)
        self._context.paint()
        self._context.set_operator(self._cairo.OPERATOR_OVER)

    def panel(self, box: Box, radius: float, colour: Colour) -> None:
        x, y, width, height = box
        self._context.set_source_rgba(*colour)
        self._context.new_path()
        for corner, (across, down) in enumerate(((1, 0), (1, 1), (0, 1), (0, 0))):
            middle = x + radius + across * (width - 2 * radius), y + radius + down * (height - 2 * radius)
            self._context.arc(*middle, radius, (corner - 1) * math.pi / 2, corner * math.pi / 2)
        self._context.fill()

    def ring(self, centre: tuple[float, float], radius: float, width: float, turn: float, colour: Colour) -> None:
        self._context.set_source_rgba(*colour)
        self._context.set_line_width(width)
        self._context.new_path()
        self._context.arc(*centre, radius, _TOP, _TOP + turn * 2 * math.pi)
        self._context.stroke()

    def text(self, at: tuple[float, float], said: str, size: float, colour: Colour, centred: bool = False) -> None:
        self._context.set_source_rgba(*colour)
        self._context.set_font_size(size)
        advance = self._context.text_extents(said)[4] if centred else 0
        self._context.move_to(at[0] - advance / 2, at[1])
        self._context.show_text(said)


class SkiaInk:
    """Skia's CPU canvas."""

    format = "rgba8unorm"
    alpha = "premultiplied"

    def __init__(self, view: View) -> None:
        self._surface = view.skia()
        import skia

        self._skia = skia
        self._canvas = self._surface.getCanvas()

    @staticmethod
    def called() -> str:
        return f"Skia (skia-python {metadata.version('skia-python')})"

    def clear(self) -> None:
        self._canvas.clear(0)

    def panel(self, box: Box, radius: float, colour: Colour) -> None:
        self._canvas.drawRoundRect(self._skia.Rect.MakeXYWH(*box), radius, radius, self._paint(colour))

    def ring(self, centre: tuple[float, float], radius: float, width: float, turn: float, colour: Colour) -> None:
        paint = self._paint(colour)
        paint.setStyle(self._skia.Paint.kStroke_Style)
        paint.setStrokeWidth(width)
        box = self._skia.Rect.MakeLTRB(centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)
        self._canvas.drawArc(box, -90, 360 * turn, False, paint)

    def text(self, at: tuple[float, float], said: str, size: float, colour: Colour, centred: bool = False) -> None:
        font = self._skia.Font(_skia_face(), size)
        left = at[0] - font.measureText(said) / 2 if centred else at[0]
        self._canvas.drawString(said, left, at[1], font, self._paint(colour))

    def _paint(self, colour: Colour) -> Any:
        return self._skia.Paint(Color4f=self._skia.Color4f(*colour), AntiAlias=True)


Ink = PillowInk | CairoInk | SkiaInk
INKS: dict[str, type[Ink]] = {"pillow": PillowInk, "cairo": CairoInk, "skia": SkiaInk}


def _bytes(colour: Colour) -> tuple[int, ...]:
    return tuple(round(255 * channel) for channel in colour)


@lru_cache(maxsize=1)
def _skia_face() -> Any:
    import skia

    return skia.FontMgr().matchFamilyStyle("sans-serif", skia.FontStyle())
