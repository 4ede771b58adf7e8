"""Frame numbers as rows of squares: each process leaves one, the checker reads both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from vkshare import CommandList, Surface, View
from vkshare.demos.layout import BITS, Layout, Rect

DARK = (26, 24, 56, 255)
LIGHT = (214, 208, 255, 255)


def code(frame: int, party: int) -> int:
    """BITS bits that differ in many places from the frame before and from the other party's."""
    return ((frame * 3 + party + 1) * 0x9E3779B1 >> 7) & ((1 << BITS) - 1)  # Knuth's multiplicative hash


def squares(number: int, at: tuple[int, int], cell: int) -> Iterator[tuple[Rect, tuple[int, int, int, int]]]:
    """(rectangle, RGBA colour): the strip in the dark, then runs of 1s in the light. The highest bit is leftmost."""
    x, y = at
    yield (x, y, BITS * cell, cell), DARK
    for run in re.finditer("1+", f"{number:0{BITS}b}"):
        yield (x + run.start() * cell, y, len(run[0]) * cell, cell), LIGHT


def fill(commands: CommandList, target: Surface | View, layout: Layout, number: int) -> CommandList:
    """The squares at the layout's render_mark, by the device's commands."""
    for rect, colour in squares(number, layout.render_mark, layout.mark_cell):
        commands.fill_rect(target, rect, [channel / 255 for channel in colour])
    return commands


def read(pixels: Any, at: tuple[int, int], cell: int) -> int:
    """The number in (H, W, 4) uint8 pixels; -1 where a square is neither light nor dark."""
    x, y = at
    row = pixels[y + cell // 2, x + cell // 2 : x + BITS * cell : cell].astype(int)
    light, dark = ((np.abs(row - colour) <= 2).all(1) for colour in (LIGHT, DARK))
    return int(light @ (1 << np.arange(BITS)[::-1])) if (light | dark).all() else -1
