"""Tiles: rectangles of a picture as one raw deflate stream, and back (rule W3). Free of threads.

Browsers unpack the stream themselves, by DecompressionStream. The way back is for recordings and
tests, and checks all bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare.view import messages
from vkshare.view.messages import Rectangle

if TYPE_CHECKING:
    from vkshare.view.feed import Picture

Array = np.ndarray[Any, Any]

LARGEST_SIDE = 1 << 15  # pixels
_HEAD = struct.Struct("<BBHIQQII")
_RECTANGLE = struct.Struct("<4I")
_SMALL = 1 << 17  # bytes; more than these are packed quickly instead of well
_FAST, _GOOD = 1, 6  # zlib's levels: some 150 and 50 MB/s
_PIECE = 1 << 20  # bytes that are unpacked at once


def pack(picture: Picture, rectangles: Iterable[Rectangle]) -> bytes:
    """Return the RGBA rows of all rectangles, one after the other, as a raw deflate stream (RFC 1951)."""
    rectangles = tuple(rectangles)
    size = sum(4 * width * height for _, _, width, height in rectangles)
    packer = zlib.compressobj(_GOOD if size <= _SMALL else _FAST, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    pieces = [packer.compress(np.ascontiguousarray(picture.region(*each)).data) for each in rectangles]
    return b"".join([*pieces, packer.flush()])


@dataclass(frozen=True, slots=True)
class Tiles:
    """A TILES message: the arguments of ``messages.tiles()``."""

    frame: int
    time_ns: int
    width: int
    height: int
    rectangles: tuple[Rectangle, ...]
    packed: bytes

    @classmethod
    def read(cls, message: bytes) -> Tiles:
        """Return a message's contents.

        Raises
        ------
        ValueError
            It is no TILES message, or its sizes are out of bounds.
        """
        if len(message) < _HEAD.size:
            raise ValueError(f"the message has {len(message)} bytes; TILES has at least {_HEAD.size}")
        kind, _, _, count, frame, time_ns, width, height = _HEAD.unpack_from(message)
        if kind != messages.Kind.TILES:
            raise ValueError(f"the message is of kind {kind}; TILES is {int(messages.Kind.TILES)}")
        if not (0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE):
            raise ValueError(f"the picture is {width}x{height}; sides are 1 to {LARGEST_SIDE}")
        end = _HEAD.size + count * _RECTANGLE.size
        if count > messages.MOST_RECTANGLES or end > len(message):
            raise ValueError(f"the message has {count} rectangles in {len(message)} bytes")
        rectangles = tuple(_RECTANGLE.iter_unpack(message[_HEAD.size : end]))
        _check(rectangles, width, height)
        return cls(frame, time_ns, width, height, rectangles, message[end:])

    def apply(self, canvas: Array) -> None:
        """Unpack the rectangles, and put them on a canvas (height, width, 4), uint8.

        Raises
        ------
        ValueError
            The stream is damaged, or has more or fewer bytes than the rectangles. The canvas is as before.
        """
        if canvas.shape != (self.height, self.width, 4) or canvas.dtype != np.uint8:
            raise ValueError(
                f"the canvas is {canvas.shape} {canvas.dtype}; it must be ({self.height}, {self.width}, 4) uint8"
            )
        pixels = np.frombuffer(unpack(self.packed, sum(4 * each[2] * each[3] for each in self.rectangles)), np.uint8)
        start = 0
        for x, y, width, height in self.rectangles:
            end = start + 4 * width * height
            canvas[y : y + height, x : x + width] = pixels[start:end].reshape(height, width, 4)
            start = end


def unpack(packed: bytes, size: int) -> bytes:
    """Return exactly `size` bytes of a raw deflate stream, and hold no more of it in memory.

    Raises
    ------
    ValueError
        The stream is damaged, or has more or fewer bytes.
    """
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    pieces, left, rest = [], size, packed
    try:
        while not unpacker.eof:
            piece = unpacker.decompress(rest, min(_PIECE, left + 1))
            rest, left = unpacker.unconsumed_tail, left - len(piece)
            if left < 0:
                raise ValueError(f"the tiles have more than their {size} bytes")
            if not piece and not unpacker.eof:
                break
            pieces.append(piece)
    except zlib.error as error:
        raise ValueError(f"the tiles are no deflate stream: {error}") from None
    if left or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"the tiles have {size - left} bytes, not {size}, or others behind them")
    return b"".join(pieces)


def _check(rectangles: Sequence[Rectangle], width: int, height: int) -> None:
    for rectangle in rectangles:
        x, y, wide, high = rectangle
        if not wide or not high or x + wide > width or y + high > height:
            raise ValueError(f"the rectangle {rectangle} is not within {width}x{height} pixels")
    if sum(each[2] * each[3] for each in rectangles) > 2 * width * height:
        raise ValueError("the rectangles are larger than the picture")
