"""The host's images: whose turn it is, and which pixels the viewer lacks. Pure, but for reads of shared memory.

A *turn* is one use of an image by one context. Turns are numbered in the order in which the host
takes batches, which is the order of the grants, because a party is granted a surface only when the
batches of the party before it have been taken. The viewer repeats that order (rule M2).
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from vkshare.formats import Format
from vkshare.remote import relay_messages as m
from vkshare.server.messages import Rect

TILE = 32  # pixels: a rectangle of some hundred pixels a side has few more in its tiles
MOST_PIXELS = 256 << 10  # bytes of pixels in one message
_MOST_RECTS = 1024  # in one message
Tiles = dict[tuple[int, int], int]  # hash() of the bytes, by place: 64 bits, of which a program cannot choose any


@dataclass(slots=True)
class Image:
    """One image of the viewer, and its memory on this machine, whose fd and mapping it owns.

    Attributes
    ----------
    generation
        The session of the link whose viewer has it.
    next_turn
        The number of the next turn.
    users
        Contexts that have it open.
    known
        Hashes of the viewer's tiles; a tile that is missing is zeros. None: it has drawn since, so
        they are not known.
    local
        The same of the memory on this machine, when the host last looked at it.
    """

    spec: m.Image
    format: Format
    fd: int
    stride: int
    memory: mmap.mmap
    generation: int = 1
    next_turn: int = 0
    users: set[int] = field(default_factory=set)
    known: Tiles | None = field(default_factory=dict)
    local: Tiles = field(default_factory=dict)

    def turn(self, *, writes: bool) -> m.Turn:
        """Takes the next turn."""
        number, self.next_turn = self.next_turn, self.next_turn + 1
        return m.Turn(self.spec.id, number, writes)

    @property
    def row(self) -> int:
        """Bytes of a row of pixels."""
        return self.spec.width * self.format.bytes_per_pixel

    def has_local_pixels(self) -> bool:
        """Whether a party of this machine has ever written to the memory: until then it has no page."""
        try:
            os.lseek(self.fd, 0, os.SEEK_DATA)
        except OSError as error:
            return error.errno != errno.ENXIO
        return True

    def changed(self) -> list[Rect]:
        """Returns the rectangles that parties of this machine have changed, and counts them as sent (rule M15)."""
        if not self.has_local_pixels():
            return []
        tiles = dict(_tiles(memoryview(self.memory), self.stride, self))
        found, self.local = self._differing(self.local, tiles), tiles
        if found:
            self.known = None
        return found

    def replace(self, pixels: memoryview) -> list[Rect]:
        """Returns the rectangles in which the viewer's pixels differ from these, and counts them as sent.

        `pixels` has rows without padding.
        """
        tiles = dict(_tiles(pixels, self.row, self))
        before, self.known = self.known, tiles
        if before is None:
            return [(0, 0, self.spec.width, self.spec.height)]
        return self._differing(before, tiles)

    def _differing(self, before: Tiles, after: Tiles) -> list[Rect]:
        tiles = [at for at, code in after.items() if before.get(at, _zeros(self, at)) != code]
        return merged(tiles, self.spec.width, self.spec.height)

    def drawn(self) -> None:
        """Notes that the viewer changes it, so that nothing is known of its pixels."""
        self.known = None

    def close(self) -> None:
        self.memory.close()
        os.close(self.fd)


def _tiles(pixels: memoryview, stride: int, image: Image) -> Iterator[tuple[tuple[int, int], int]]:
    """Yields the hash of each tile's bytes."""
    width, height, pixel = image.spec.width, image.spec.height, image.format.bytes_per_pixel
    rows = np.ndarray((height, width * pixel), np.uint8, pixels, strides=(stride, 1))
    for y in range(0, height, TILE):
        for x in range(0, width, TILE):
            yield (x, y), hash(rows[y : y + TILE, x * pixel : (x + TILE) * pixel].tobytes())


def _zeros(image: Image, at: tuple[int, int]) -> int:
    width = min(TILE, image.spec.width - at[0])
    height = min(TILE, image.spec.height - at[1])
    return _zeros_of(width * height * image.format.bytes_per_pixel)


@functools.cache
def _zeros_of(size: int) -> int:
    return hash(bytes(size))


def merged(tiles: list[tuple[int, int]], width: int, height: int) -> list[Rect]:
    """Returns rectangles that cover the tiles: tiles that lie side by side are one."""
    found: list[Rect] = []
    for x, y in tiles:  # row by row, from the left
        end = min(x + TILE, width)
        tall = min(TILE, height - y)
        if found and found[-1][1] == y and found[-1][0] + found[-1][2] == x:
            found[-1] = (found[-1][0], y, end - found[-1][0], tall)
        else:
            found.append((x, y, end - x, tall))
    return found


def bands(rect: Rect, pixel: int) -> Iterator[Rect]:
    """Yields the rectangle in bands of MOST_PIXELS bytes at most."""
    x, y, width, height = rect
    columns = min(width, MOST_PIXELS // pixel)
    rows = max(1, MOST_PIXELS // (columns * pixel))
    for top in range(y, y + height, rows):
        for left in range(x, x + width, columns):
            yield left, top, min(columns, x + width - left), min(rows, y + height - top)


def together(rects: Iterable[Rect], pixel: int) -> Iterator[tuple[Rect, ...]]:
    """Yields the rectangles in groups of MOST_PIXELS bytes at most."""
    group: list[Rect] = []
    size = 0
    for rect in rects:
        more = rect[2] * rect[3] * pixel
        if group and (size + more > MOST_PIXELS or len(group) == _MOST_RECTS):
            yield tuple(group)
            group, size = [], 0
        group.append(rect)
        size += more
    if group:
        yield tuple(group)


def rows_of(pixels: memoryview, stride: int, rect: Rect, pixel: int) -> bytes:
    """Returns the rectangle's pixels, rows without padding."""
    x, y, width, height = rect
    return b"".join(
        pixels[row * stride + x * pixel : row * stride + (x + width) * pixel] for row in range(y, y + height)
    )
