"""Memory that an X11 window shows pictures from, and the pictures in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare.util.closing import Scoped

if TYPE_CHECKING:
    from vkshare.window.shm_window import ShmWindow

_BLOCK = 16  # rows converted at once: they stay in the first-level caches (0.7 ms for 1280x720, else 1.7)


class Token:
    """One picture shown: whether the server has read it. See :meth:`ShmWindow.is_done`."""

    __slots__ = ("_is_done", "_sequence", "_window_id")

    def __init__(self, window_id: int, sequence: int, is_done: bool) -> None:
        self._window_id = window_id
        self._sequence = sequence  # of the request, 32 bits
        self._is_done = is_done

    def __repr__(self) -> str:
        return f"<Token of request {self._sequence}{', done' if self._is_done else ''}>"


class Segment(Scoped):
    """A surface's memory as the window's server knows it. Made by :meth:`ShmWindow.attach`, ends with its window."""

    __slots__ = ("_id", "_pixels", "_staging", "_window", "size")

    def __init__(self, window: ShmWindow, pixels: memoryview, segment_id: int) -> None:
        self._window = window
        self._pixels: memoryview | None = pixels
        self._id = segment_id  # 0: the server cannot see it, and is sent the pixels
        self._staging: tuple[Segment, memoryview] | None = None  # holds the picture in the server's format
        self.size = len(pixels)

    @property
    def is_shared(self) -> bool:
        """Whether the server reads the memory itself."""
        return self._id != 0

    @property
    def is_closed(self) -> bool:
        """Whether close() was called, here or on the window."""
        return self._pixels is None

    def close(self) -> None:
        """Lets the server forget it, once what was shown of it has been read. May be repeated."""
        self._window._detach(self)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "shared" if self.is_shared else "copied"
        return f"<Segment of {self.size} bytes, {state}>"


def rows_of(pixels: memoryview | None, width: int, height: int, stride: int) -> np.ndarray[Any, Any]:
    """The picture as (height, width) words, without a copy."""
    return np.ndarray((height, width), np.uint32, pixels, strides=(stride, 4))


def swap_red_and_blue(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    """Turns rgba into bgra: bytes reversed, then turned by one. Words at a time it is twice as fast as byte by byte."""
    swapped = np.empty((_BLOCK, source.shape[1]), np.uint32)
    for y in range(0, len(source), _BLOCK):
        rows, out = source[y : y + _BLOCK], target[y : y + _BLOCK]
        words = swapped[: len(rows)]
        words[...] = rows.view(">u4")
        np.right_shift(words, 8, out=out)
        np.left_shift(words, 24, out=words)
        np.bitwise_or(out, words, out=out)
