"""Expected contents of a frame, and the check of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from vkshare.demos import marks
from vkshare.demos.layout import Layout
from vkshare.demos.painter import colour_at

_CLOSE = 6  # steps of 255 that the backdrop may be off
_DIFFERENT = 12  # steps of 255 from where on it is something else
_BRIGHT = 150  # least channel of a pixel of white text


class Inspector:
    """Looks at frames in order."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last: int | None = None
        self._object = _disc(layout)
        self._object_backdrop = _expected(layout, self._object)
        self._sky = _sky(layout)
        self._sky_backdrop = _expected(layout, self._sky)

    def faults(self, frame: int, pixels: Any) -> list[str]:
        """Return the faults of (H, W, 4) uint8 `pixels` as that frame."""
        found = [*self._marks(frame, pixels), *self._text(pixels), *self._scene(pixels)]
        checksum = _checksum(pixels)
        if checksum == self._last:
            found.append("it is the frame before once more")
        self._last = checksum
        return found

    def _marks(self, frame: int, pixels: Any) -> Iterator[str]:
        cell = self._layout.mark_cell
        for party, name, at in ((0, "renderer", self._layout.render_mark), (1, "text process", self._layout.text_mark)):
            number, expected = marks.read(pixels, at, cell), marks.code(frame, party)
            if number != expected:
                reported = "no mark" if number < 0 else f"the mark {number:#08x}"
                yield f"the {name} left {reported}, expected is {expected:#08x}"

    def _text(self, pixels: Any) -> Iterator[str]:
        for name, rect, least in (("title", self._layout.title, 0.04), ("frame number", self._layout.live_line, 0.002)):
            x, y, width, height = rect
            share = float((pixels[y : y + height, x : x + width, :3].min(2) >= _BRIGHT).mean())
            if not least <= share <= 0.6:
                yield f"the {name} covers {share:.1%} of its place, expected are {least:.1%} to 60 %"

    def _scene(self, pixels: Any) -> Iterator[str]:
        covered = _off(pixels, self._object, self._object_backdrop, _DIFFERENT)
        if covered < 0.5:
            yield f"the object covers {covered:.0%} of its place, expected is at least 50 %"
        wrong = _off(pixels, self._sky, self._sky_backdrop, _CLOSE)
        if wrong > 0:
            yield f"{wrong:.0%} of the points looked at in the sky are not the backdrop"


def _checksum(pixels: Any) -> int:
    if pixels.flags.c_contiguous:
        return zlib.crc32(pixels)
    checksum = 0
    for row in pixels:  # rows are padded
        checksum = zlib.crc32(row, checksum)
    return checksum


def _off(pixels: Any, points: tuple[Any, Any], expected: Any, steps: int) -> float:
    """The share of points with a channel that is more than `steps` from what is expected."""
    rows, columns = points
    return float((np.abs(pixels[rows, columns, :3] - expected).max(1) > steps).mean())


def _expected(layout: Layout, points: tuple[Any, Any]) -> Any:
    rows, columns = points
    return colour_at(layout, columns + 0.5, rows + 0.5)


def _disc(layout: Layout) -> tuple[Any, Any]:
    """Rows and columns of points that the cube covers, however it is turned: inside its inscribed sphere."""
    x, y = layout.object_centre
    side = np.linspace(-1, 1, 17)
    across, down = (axis.reshape(-1) * 0.85 * layout.object_scale for axis in np.meshgrid(side, side))
    inside = across**2 + down**2 <= (0.85 * layout.object_scale) ** 2
    return (y + down[inside]).astype(int), (x + across[inside]).astype(int)


def _sky(layout: Layout) -> tuple[Any, Any]:
    """Rows and columns of points that nothing ever covers: along the upper edge."""
    columns = np.linspace(0, layout.width - 1, 64).astype(int)
    return np.full_like(columns, round(0.02 * layout.height)), columns
