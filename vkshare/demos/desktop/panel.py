"""The statistics, live: a window of the compositor's own process, drawn with Pillow."""

from __future__ import annotations

from typing import Any

from PIL import Image, ImageDraw

import vkshare
from vkshare.demos.desktop.census import Count
from vkshare.demos.desktop.pictures import canvas
from vkshare.demos.desktop.places import PANEL, SEATS, Desk
from vkshare.demos.lettering import FAINT, SOFT, WHITE, write
from vkshare.util.closing import Scoped

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
        try:
            with self._sender.frame(timeout=0) as frame, canvas(frame.view) as image:
                self._draw(image, counts, compositor)
        except (vkshare.AcquireTimeout, vkshare.ClosedError):
            pass

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
