"""The text of a frame, by Pillow: on whatever RGBA image it is given.

A Layer is for surfaces that Pillow cannot draw on: an image of its own, uploaded and composited.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vkshare import CommandList, Device, Surface, View
from vkshare.demos import marks
from vkshare.demos.layout import Layout, Rect
from vkshare.util.closing import Scoped

_RATE_OVER = 30  # frames

WHITE = (255, 255, 255, 255)
SOFT = (188, 184, 222, 255)
FAINT = (140, 134, 186, 255)
TRACK = (58, 50, 104, 255)
PARTY_COLOURS = ((69, 214, 237, 255), (255, 184, 77, 255), (250, 97, 148, 255))


@dataclass(frozen=True, slots=True)
class Facts:
    """The contents of the text."""

    adapter: str
    frames: int | None  # None: until the user ends it
    claim: str  # below the title
    lines: tuple[tuple[str, str], ...]  # three: a short word, and what is to be said of it

    @classmethod
    def of_three_processes(cls, adapter: str, frames: int, copies: bool) -> Facts:
        """`copies`: the text is uploaded, in place of being drawn into the surface."""
        by_text = "Pillow writes this, then uploads it" if copies else "Pillow writes into the same memory"
        claim = "One surface, three processes" + ("." if copies else ", no copy.")
        lines = (("key 0", "the renderer draws"), ("key 1", by_text), ("key 2", "the checker reads every frame"))
        return cls(adapter, frames, claim, lines)


class Lettering:
    """Draws the text of one frame after the other.

    Parameters
    ----------
    origin
        (x, y) in the frame of the images' top left.
    """

    def __init__(self, layout: Layout, facts: Facts, origin: tuple[int, int] = (0, 0)) -> None:
        self._layout = layout
        self._facts = facts
        self._origin = origin

    def draw(self, image: Image.Image, frame: int, seconds: float, rate: float) -> None:
        """Everything lies in layout.text_area. `rate`: frames a second."""
        self.draw_fixed(image)
        self.draw_live(image, frame, seconds, rate)

    def draw_fixed(self, image: Image.Image) -> None:
        """Draw the constant part of the text."""
        draw = ImageDraw.Draw(image)
        x, y, _, height = self._layout.live_line
        self._text(draw, (x, y + height + self._px(50)), self._facts.adapter, 18, FAINT, "ls")
        x, y, _, height = self._layout.title
        self._text(draw, (x, y + height), "vkshare", 84, WHITE, "ls")
        self._text(draw, (x + self._px(4), y + height + self._px(50)), self._facts.claim, 26, SOFT, "ls")
        if not self._layout.is_wide:
            return
        left, top = self._origin
        for index, (word, line) in enumerate(self._facts.lines):
            centre = y + height + self._px(126 + 46 * index)
            radius = self._px(8)
            start = x + self._px(4)
            dot = (start - left, centre - radius - top)
            draw.bitmap(dot, _dot(2 * radius), fill=PARTY_COLOURS[index])
            self._text(draw, (start + self._px(32), centre), word, 20, FAINT, "lm")
            self._text(draw, (start + self._px(92), centre), line, 22, SOFT, "lm")

    def draw_live(self, image: Image.Image, frame: int, seconds: float, rate: float) -> None:
        """Draw the changing part of the text, in layout.live_area."""
        draw = ImageDraw.Draw(image)
        layout = self._layout
        for rect, colour in marks.squares(marks.code(frame, 1), layout.text_mark, layout.mark_cell):
            self._rectangle(draw, rect, colour)
        x, y, width, height = layout.live_line
        baseline = y + height
        number = str(frame + 1)
        self._text(draw, (x, baseline), number, 48, WHITE, "ls")
        self._text(draw, (x + self._px(220), baseline), f"{seconds:.2f} s", 26, SOFT, "ls")
        self._text(draw, (x + self._px(330), baseline), f"{rate:.0f} fps", 26, SOFT, "ls")
        if self._facts.frames is None:
            return
        past = x + length(number, self._px(48)) + self._px(10)
        self._text(draw, (past, baseline), f"of {self._facts.frames}", 22, FAINT, "ls")
        bar = (x, baseline + self._px(18), width, max(1, self._px(4)))
        self._rectangle(draw, bar, TRACK)
        done = max(1, round(width * (frame + 1) / self._facts.frames))
        self._rectangle(draw, (bar[0], bar[1], done, bar[3]), PARTY_COLOURS[1])

    def _rectangle(self, draw: ImageDraw.ImageDraw, rect: Rect, colour: tuple[int, ...]) -> None:
        x, y, width, height = rect
        x, y = x - self._origin[0], y - self._origin[1]
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)  # Pillow's include their last row and column

    def _px(self, units: float) -> int:
        return round(units * self._layout.unit)

    def _text(
        self, draw: ImageDraw.ImageDraw, at: tuple[int, int], said: str, size: float, ink: tuple[int, ...], anchor: str
    ) -> None:
        write(draw, (at[0] - self._origin[0], at[1] - self._origin[1]), said, self._px(size), ink, anchor)


class Layer(Scoped):
    """A transparent image for one rectangle of the frame."""

    def __init__(self, device: Device, area: Rect) -> None:
        self._device = device
        self._at = area[:2]
        self._surface = device.create_surface(*area[2:], "rgba8unorm")
        self._surface.acquire(0)

    def upload(self, draw: Callable[..., None], *arguments: Any) -> None:
        """Call ``draw(image, *arguments)`` on an image of the rectangle's size. Waits for work that reads the layer."""
        image = Image.new("RGBA", (self._surface.width, self._surface.height))
        draw(image, *arguments)
        self._surface.write(np.asarray(image))

    def record(self, commands: CommandList, target: Surface | View) -> None:
        """Puts it over the target."""
        commands.composite(self._surface, target, at=self._at, alpha="straight")

    def draw(self, target: Surface | View, draw: Callable[..., None], *arguments: Any) -> None:
        """Both at once."""
        self.upload(draw, *arguments)
        commands = self._device.record()
        self.record(commands, target)
        self._device.submit(commands)

    def close(self) -> None:
        """Idempotent."""
        self._surface.close()


class Clock:
    """Seconds since the first tick, and ticks a second lately."""

    def __init__(self) -> None:
        self._start: float | None = None
        self._recent: deque[float] = deque(maxlen=_RATE_OVER + 1)

    def tick(self) -> tuple[float, float]:
        now = time.monotonic()
        self._start = now if self._start is None else self._start
        self._recent.append(now)
        span = now - self._recent[0]
        return now - self._start, (len(self._recent) - 1) / span if span > 0 else 0.0


class Writer(Scoped):
    """Writes the text into one surface after the other: into its own memory, or if that `copies`, by a Layer."""

    def __init__(self, device: Device, layout: Layout, facts: Facts, copies: bool) -> None:
        self._lettering = Lettering(layout, facts)
        self._layer = Layer(device, layout.text_area) if copies else None
        self._clock = Clock()

    def write(self, view: View, frame: int) -> None:
        """Waits for the drawing below, where it writes into the memory."""
        seconds, rate = self._clock.tick()
        if self._layer is not None:
            self._layer.draw(view, self._lettering.draw, frame, seconds, rate)
            return
        image = view.pillow()
        self._lettering.draw(image, frame, seconds, rate)
        image.close()

    def close(self) -> None:
        """Idempotent."""
        if self._layer is not None:
            self._layer.close()


# ---- ink -----------------------------------------------------------------------------------------------------------


def write(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], said: str, size: int, ink: tuple[int, ...], anchor: str
) -> None:
    """`size` in pixels; `anchor` is "ls" (left, baseline), "lm" (left, middle), "rs" (right), as Pillow has it."""
    stencil, (left, top) = _stencil(said, max(6, size), anchor)
    draw.bitmap((at[0] + left, at[1] + top), stencil, fill=ink)


@lru_cache(maxsize=64)
def _stencil(said: str, size: int, anchor: str) -> tuple[Image.Image, tuple[int, int]]:
    """Text as a mask, and where its corner is from the anchor. Kept, as most of a frame's text stays the same."""
    font = _font(size)
    left, top, right, bottom = (round(edge) for edge in font.getbbox(said, anchor=anchor))
    stencil = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(stencil).text((-left, -top), said, fill=255, font=font, anchor=anchor)
    return stencil, (left, top)


def _mask(width: int, height: int, fine: int, draw: Callable[[ImageDraw.ImageDraw], None]) -> Image.Image:
    """Pillow draws without smoothing: what is round is drawn as a mask, so many times larger, and reduced."""
    large = Image.new("L", (fine * width, fine * height))
    draw(ImageDraw.Draw(large))
    return large.resize((width, height), Image.Resampling.BOX)


@lru_cache(maxsize=16)
def _dot(side: int) -> Image.Image:
    """A disc with smooth edges."""
    return _mask(side, side, 8, lambda draw: draw.ellipse((0, 0, 8 * side - 1, 8 * side - 1), fill=255))


@lru_cache(maxsize=32)
def panel_mask(width: int, height: int, radius: int) -> Image.Image:
    """A rectangle with round corners."""
    box = (0, 0, 4 * width - 1, 4 * height - 1)
    return _mask(width, height, 4, lambda draw: draw.rounded_rectangle(box, 4 * radius, fill=255))


@lru_cache(maxsize=256)
def _ring_mask(outer: int, width: float, degrees: float) -> Image.Image:
    box = (0, 0, 8 * outer - 1, 8 * outer - 1)
    arc = {"fill": 255, "width": round(4 * width)}
    return _mask(2 * outer, 2 * outer, 4, lambda draw: draw.arc(box, -90, degrees - 90, **arc))


def ring(
    draw: ImageDraw.ImageDraw, centre: tuple[float, float], radius: float, width: float, degrees: float, ink: Any
) -> None:
    """From the top clockwise."""
    outer = math.ceil(radius + width / 2)
    draw.bitmap((round(centre[0]) - outer, round(centre[1]) - outer), _ring_mask(outer, width, degrees), fill=ink)


@lru_cache(maxsize=16)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def length(said: str, size: int) -> int:
    """Pixels from its left end to its right one."""
    return int(_font(size).getlength(said) + 0.5)
