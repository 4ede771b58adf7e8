"""Pictures of the desktop's clients. Times are seconds; images are drawn whole each time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from vkshare import View
from vkshare.demos import marks
from vkshare.demos.layout import Layout, Rect
from vkshare.demos.lettering import FAINT, SOFT, TRACK, WHITE, length, panel_mask, ring, write
from vkshare.demos.solids import Array, mesh
from vkshare.errors import UnsupportedError

_INK = (16, 14, 40, 255)  # what pictures are drawn on
NIGHT = (0.063, 0.055, 0.157, 1.0)
_CYAN, _AMBER, _ROSE, _GREEN = (0.27, 0.84, 0.93), (1.0, 0.72, 0.30), (0.98, 0.38, 0.58), (0.43, 0.91, 0.63)
_STEPS = 48  # of a ribbon
_SOLID = 0.88  # its alpha
_BARS = 24


# ---- what they have in common --------------------------------------------------------------------------------------


@contextmanager
def canvas(view: View) -> Iterator[Image.Image]:
    """Pillow's image over the surface's own memory; where the CPU cannot see that, one that is copied there."""
    try:
        image = view.pillow()
    except UnsupportedError:
        image = Image.new("RGBA", (view.surface.width, view.surface.height))
        yield image
        view.surface.write(np.asarray(image))
        return
    yield image


def number_on(image: Image.Image, layout: Layout, frame: int, client: int) -> None:
    """Leaves the frame's number, in squares."""
    draw = ImageDraw.Draw(image)
    for (x, y, width, height), colour in marks.squares(marks.code(frame, client), layout.render_mark, layout.mark_cell):
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)


def fitted(said: str, size: int, width: int) -> str:
    """As much of it as is at most so many pixels wide."""
    if length(said, size) <= width:
        return said
    while said and length(said + "…", size) > width:
        said = said[:-1].rstrip()
    return said + "…"


# ---- the clients' --------------------------------------------------------------------------------------------------


def ribbons(seconds: float) -> Array:
    """Three bands that wind through each other, as rows of x y r g b a; soft at their edges."""
    x = np.linspace(-1.05, 1.05, _STEPS)
    parts = []
    for index, colour in enumerate((_CYAN, _AMBER, _ROSE)):
        phase = 2 * math.pi * index / 3
        middle = 0.42 * np.sin(2.1 * x + 0.9 * seconds + phase) * np.cos(0.5 * seconds + 0.7 * x)
        half = 0.10 + 0.09 * np.sin(3.0 * x - 1.3 * seconds + phase)
        shine = (0.62 + 0.38 * np.cos(2.4 * x + 1.7 * seconds + phase))[:, None] * np.array(colour)
        for inner, outer, fades in ((-1.0, 1.0, False), (1.0, 1.35, True), (-1.0, -1.35, True)):
            near = _edge(x, middle + inner * np.abs(half), shine, _SOLID)
            far = _edge(x, middle + outer * np.abs(half), shine, 0 if fades else _SOLID)
            parts.append(mesh(np.stack([near, far])))
    return np.concatenate(parts).astype(np.float32)


def _edge(x: Array, y: Array, colour: Array, alpha: float) -> Array:
    """Rows along one edge; colours are premultiplied."""
    return np.concatenate([x[:, None], y[:, None], colour * alpha, np.full((len(x), 1), alpha)], 1)


def clock(image: Image.Image, number: int, seconds: float) -> None:
    """The time of day, and what it is drawn by."""
    draw, unit = _begun(image)
    now = time.time()
    reported = time.strftime("%H:%M:%S", time.localtime(now))
    write(draw, (round(image.width / 2), round(72 * unit)), reported, round(50 * unit), WHITE, "ms")
    write(draw, (round(image.width / 2), round(98 * unit)), time.strftime("%A, %d %B"), round(16 * unit), SOFT, "ms")
    left, width, top = round(40 * unit), image.width - 2 * round(40 * unit), round(116 * unit)
    thick = max(1, round(3 * unit))
    draw.rectangle((left, top, left + width - 1, top + thick - 1), fill=TRACK)
    draw.rectangle((left, top, left + round((width - 1) * (now % 1)), top + thick - 1), fill=(250, 97, 148, 255))


class Waves:
    """Interference, by NumPy or by PyTorch, which are called alike."""

    def __init__(self, library: Any, width: int, height: int) -> None:
        self._library = library
        y, x = np.mgrid[0:height, 0:width].astype(np.float32) / np.float32(height)
        x -= width / height / 2
        y -= 0.5
        as_array = library.from_numpy if hasattr(library, "from_numpy") else np.asarray
        self._x, self._y = as_array(x), as_array(y)
        palette = np.empty((256, 4), np.uint8)
        turn = np.linspace(0, 2 * math.pi, 256, endpoint=False)
        for channel, (base, swing, phase) in enumerate(((74, 58, 0.0), (60, 46, 2.2), (142, 74, 0.9))):
            palette[:, channel] = base + swing * np.cos(turn + phase)
        palette[:, 3] = 255
        self._palette = as_array(palette)

    def at(self, seconds: float) -> Any:
        """(H, W, 4) uint8, NumPy's."""
        sin, sqrt = self._library.sin, self._library.sqrt
        x, y = self._x, self._y
        dx, dy = x - 0.6 * math.cos(0.7 * seconds), y - 0.3 * math.sin(0.9 * seconds)
        field = sin(7 * sqrt(dx * dx + dy * dy) - 2.2 * seconds) + sin(3.1 * x + 2 * y + seconds)
        index = (field * 52 + (128 + 18 * seconds)) % 256
        found = self._palette[index.long() if hasattr(index, "long") else index.astype(np.uint8)]
        return np.ascontiguousarray(found)


def bars(width: int, height: int, seconds: float) -> list[tuple[Rect, tuple[float, ...]]]:
    """Rectangles, and their colours."""
    pitch = 0.88 * width / _BARS
    drawn = []
    for bar in range(_BARS):
        high = 0.5 + 0.3 * math.sin(bar * 0.45 + seconds * 3.1) + 0.17 * math.sin(bar * 1.3 - seconds * 2.3)
        tall = max(2, round(0.74 * height * high))
        left = round(0.06 * width + bar * pitch)
        share = bar / (_BARS - 1)
        colour = [a + (b - a) * share for a, b in zip(_GREEN, _CYAN, strict=True)]
        drawn.append(((left, round(0.9 * height) - tall, max(1, round(0.64 * pitch)), tall), (*colour, 1.0)))
    return drawn


def slow(image: Image.Image, number: int) -> None:
    """How many frames there were."""
    _dial(image, (number % 8 + 1) / 8, (255, 184, 77, 255), str(number + 1), "no client waits for it")


def countdown(image: Image.Image, left: float, whole: float) -> None:
    """Seconds until it is killed."""
    _dial(image, max(0.0, left / whole), (250, 97, 148, 255), f"{max(left, 0):.1f}", "until SIGKILL")


def _dial(image: Image.Image, turn: float, ink: Any, number: str, below: str) -> None:
    draw, unit = _begun(image)
    centre = image.width / 2, image.height * 0.44
    _ring(image, centre, 52 * unit, 9 * unit, turn, ink)
    write(draw, (round(centre[0]), round(centre[1] + 12 * unit)), number, round(34 * unit), WHITE, "ms")
    write(draw, (round(centre[0]), round(image.height - 22 * unit)), below, round(15 * unit), FAINT, "ms")


def card(image: Image.Image, number: int, seconds: float) -> None:
    """The client that drifts over the others: a sheet of glass with a word on it.

    Pillow draws straight colours; the compositor takes premultiplied ones.
    """
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, image.width, image.height), fill=(0, 0, 0, 0))
    unit = image.height / 60
    draw.bitmap((0, 0), panel_mask(image.width, image.height, round(16 * unit)), fill=(32, 27, 70, 225))
    _ring(image, (30 * unit, image.height / 2), 13 * unit, 4 * unit, seconds / 2 % 1, (110, 231, 160, 255))
    write(draw, (round(56 * unit), round(27 * unit)), "I move and fade", round(18 * unit), WHITE, "ls")
    write(draw, (round(56 * unit), round(46 * unit)), "where the compositor has me", round(12.5 * unit), SOFT, "ls")
    image.paste(Image.frombytes("RGBA", image.size, image.convert("RGBa").tobytes()))


def _begun(image: Image.Image) -> tuple[ImageDraw.ImageDraw, float]:
    """Everything of the frame before goes. Also the unit: 1 in a window of the desktop of 1280x720."""
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, image.width, image.height), fill=_INK)
    return draw, image.width / (302 if image.width > 1.7 * image.height else 276)


def _ring(image: Image.Image, centre: tuple[float, float], radius: float, width: float, turn: float, ink: Any) -> None:
    """A track, and over it from the top clockwise; `turn` is 0 to 1."""
    draw = ImageDraw.Draw(image)
    for degrees, colour in ((360, TRACK), (3 * round(turn * 120), ink)):
        ring(draw, centre, radius, width, degrees, colour)
