"""The shapes and the text of the text demo, by each 2D library, on a View's own memory.

Positions and sizes are pixels, y downwards; colours are (red, green, blue, alpha), 0 to 1, not
premultiplied. Each class has the same methods, for one access's drawing: its `format` is the
surface's, its `alpha` what composite() is given, its `called()` the library's name and version.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import metadata
from typing import Any

from vkshare import View
from vkshare.demos import lettering

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
