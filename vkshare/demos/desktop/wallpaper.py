"""The compositor's own windows: the wallpaper, which has a slot for each client, and the statistics, live."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageDraw, ImageFilter

import vkshare
from vkshare.demos.desktop.census import Count
from vkshare.demos.desktop.pictures import canvas, fitted
from vkshare.demos.desktop.places import PANEL, SEATS, Desk
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import FAINT, SOFT, WHITE, Layer, length, write
from vkshare.demos.painter import backdrop
from vkshare.util.closing import Scoped

_SHADE = (6, 5, 20)
_DUSK = 128  # of 255: how far the backdrop is darkened, so that what is on it can be read
_EDGE = (214, 208, 255, 46)
_EMPTY = (14, 12, 36, 235)


class _Sky(Layout):
    """The backdrop's light is behind the middle of the upper half."""

    __slots__ = ()

    @property
    def object_centre(self) -> tuple[float, float]:
        return 0.5 * self.width, 0.36 * self.height

    @property
    def object_scale(self) -> float:
        return 0.36 * self.height


class Wallpaper(Scoped):
    """A keyed surface (drawn with key 0, handed on with key 1) that the compositor shows. For one thread."""

    def __init__(self, device: vkshare.Device, desk: Desk, reported: str) -> None:
        self._device = device
        self._desk = desk
        self._told = reported
        self._captions: dict[str, str] | None = None
        self._behind = backdrop(device, _Sky(desk.width, desk.height))
        self._layer = Layer(device, (0, 0, desk.width, desk.height))
        self._slots = _slots(desk)
        self.surface = device.create_surface(desk.width, desk.height)

    def show(self, captions: Mapping[str, str]) -> None:
        """Set the text beside each client's name. Does nothing while the compositor has not taken the last picture."""
        if captions == self._captions:
            return
        with contextlib.suppress(vkshare.AcquireTimeout):  # the compositor has not taken the one before
            with self.surface.access(0, 1, timeout=0) as view:
                self._layer.upload(self._write, captions)
                commands = self._device.record().copy(self._behind, view)
                self._layer.record(commands, view)
                self._device.submit(commands)
            self._captions = dict(captions)

    def _write(self, image: Image.Image, captions: Mapping[str, str]) -> None:
        image.alpha_composite(self._slots)
        draw = ImageDraw.Draw(image)
        desk = self._desk
        write(draw, desk.point(32, 60), "vkshare desktop", _px(desk, 44), WHITE, "ls")
        write(draw, desk.point(34, 85), fitted(self._told, _px(desk, 17), _px(desk, 940)), _px(desk, 17), SOFT, "ls")
        for seat in (*SEATS, PANEL):
            if not seat.has_slot:
                continue
            x, y, width, _ = seat.place
            dot_x, dot_y = desk.point(x + 6, y - 14)
            radius = max(2, _px(desk, 4))
            draw.ellipse((dot_x - radius, dot_y - radius, dot_x + radius, dot_y + radius), fill=seat.colour)
            size, small = _px(desk, 16), _px(desk, 13)
            at = desk.point(x + 18, y - 9)
            write(draw, at, seat.name, size, SOFT, "ls")
            past = length(seat.name, size) + _px(desk, 10)
            if reported := captions.get(seat.name, ""):
                text = fitted(reported, small, _px(desk, width - 18) - past)
                write(draw, (at[0] + past, at[1]), text, small, FAINT, "ls")

    def close(self) -> None:
        """Idempotent."""
        for each in (self._behind, self._layer, self.surface):
            each.close()


def _slots(desk: Desk) -> Image.Image:
    """Shadows, and empty frames: what is seen of a client that is not there."""
    shadows = Image.new("L", (desk.width, desk.height), _DUSK)
    drawn = ImageDraw.Draw(shadows)
    rects = [desk.rect(seat.place) for seat in (*SEATS, PANEL) if seat.has_slot]
    drop = _px(desk, 6)
    for x, y, width, height in rects:
        drawn.rectangle((x - drop, y, x + width + drop, y + height + 2 * drop), fill=210)
    image = Image.new("RGBA", shadows.size, (*_SHADE, 0))
    image.putalpha(shadows.filter(ImageFilter.GaussianBlur(_px(desk, 11))))
    draw = ImageDraw.Draw(image)
    for x, y, width, height in rects:
        draw.rectangle((x - 1, y - 1, x + width, y + height), fill=_EMPTY, outline=_EDGE)
        centre = (x + width // 2, y + height // 2)
        write(draw, centre, "not here", _px(desk, 15), (96, 90, 140, 255), "ms")
    return image


def _px(desk: Desk, units: float) -> int:
    return max(1, round(units * desk.unit))


# ---- the statistics ------------------------------------------------------------------------------------------------


_GROUND = (14, 12, 36, 255)
_BAND = (22, 19, 52, 255)
_HEAD = ("client", "shown / s", "shown", "lost", "superseded", "")
_COLUMNS = (34, 172, 252, 320, 424, 452)  # units: left end of the first and the last, right ends of the others
_PITCH, _TOP = 18.6, 22
_STATES = {"live": (110, 231, 160, 255), "keeps its frame": (255, 184, 77, 255)}
_GONE = (250, 97, 148, 255)


class Panel(Scoped):
    """Owns a pipe; `descriptor` is for the compositor. For one thread."""

    def __init__(self, device: vkshare.Device, desk: Desk) -> None:
        self._unit = desk.unit
        x, y, width, height = desk.rect(PANEL.place)
        self.at = x, y
        self._sender, self.descriptor = vkshare.pipe(device, width, height)

    def show(self, counts: list[Count], compositor: Any) -> None:
        """Draws them, where a surface is free."""
        nowhere = contextlib.suppress(vkshare.AcquireTimeout, vkshare.ClosedError)
        with nowhere, self._sender.frame(timeout=0) as frame, canvas(frame.view) as image:
            self._draw(image, counts, compositor)

    def _draw(self, image: Image.Image, counts: list[Count], compositor: Any) -> None:
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, image.width, image.height), fill=_GROUND)
        self._row(draw, 0, _HEAD, FAINT, FAINT)
        for row, count in enumerate(counts, 1):
            top = self._y(row) - self._px(13.5)
            if row % 2:
                draw.rectangle((0, top, image.width, top + self._px(_PITCH) - 1), fill=_BAND)
            colour = _STATES.get(count.state, _GONE)
            cells = (count.name, f"{count.rate:.1f}", str(count.shown), str(count.lost), str(count.superseded))
            self._row(draw, row, (*cells, count.state), WHITE, SOFT, colour)
            x, y, radius = self._px(20), self._y(row) - self._px(4.5), max(2, self._px(3.5))
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=SEATS[row - 1].colour)
        reported = f"{compositor.composites} composites; {compositor.missed} ticks missed, {compositor.skipped} skipped"
        write(draw, (self._px(_COLUMNS[0]), self._y(9.15)), reported, self._px(13), FAINT, "ls")

    def _row(self, draw: Any, row: int, cells: tuple[str, ...], first: Any, ink: Any, last: Any = None) -> None:
        for index, (cell, x) in enumerate(zip(cells, _COLUMNS, strict=True)):
            colour = first if index == 0 else last if last and index == len(cells) - 1 else ink
            anchor = "ls" if index in (0, len(cells) - 1) else "rs"
            if cell:
                write(draw, (self._px(x), self._y(row)), cell, self._px(13.5), colour, anchor)

    def _y(self, row: float) -> int:
        return self._px(_TOP + row * _PITCH)

    def _px(self, units: float) -> int:
        return round(units * self._unit)

    def close(self) -> None:
        """Idempotent."""
        self._sender.close()
        self.descriptor.close()
