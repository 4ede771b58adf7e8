"""Common drawing of the desktop's pictures: Pillow on frames, text that fits, the frame's number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageDraw

from vkshare import View
from vkshare.demos import marks
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import length
from vkshare.errors import UnsupportedError

INK = (16, 14, 40, 255)  # what pictures are drawn on


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
