"""Eight windows on a screen: the same for every contender, and what C makes of them."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from benchmarks import compiler

WIDTH, HEIGHT = 1920, 1080  # of the target
WINDOW = (1280, 720)
BACKGROUND = (0.0, 0.0, 0.0, 1.0)
BASELINE = ("-O3",)
_BAND = 32  # rows; as much of a 1080p target as stays in the second-level cache beside what is read
NATIVE = ("-O3", "-march=native")


class Place(NamedTuple):
    """Return a window's top left corner in the target's pixels."""

    x: int
    y: int
    opacity: float = 1.0


# Bottom to top, five of them clipped. The faded ones lie beside each other: C rounds their opacity to 8 bits, and two
# such errors in one pixel could differ from ours by two.
PLACES = (
    Place(-300, -200, 0.8),
    Place(0, 0),
    Place(320, 180),
    Place(640, 360),
    Place(700, 520, 0.8),
    Place(1000, -300),
    Place(-500, 600),
    Place(100, 250),
)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def pictures(*, opaque: bool = False) -> list[Pixels]:
    """A window's (720, 1280, 4) each: random, and premultiplied by an alpha that is random too, or 255."""
    random = np.random.default_rng(1)
    found = []
    for _ in PLACES:
        shape = WINDOW[1], WINDOW[0]
        alpha = random.integers(255 if opaque else 0, 256, (*shape, 1), np.int32)
        colours = random.integers(0, 256, (*shape, 3), np.int32) * alpha // 255
        found.append(np.concatenate([colours, alpha], axis=2).astype(np.uint8))
    return found


def seen_pixels(windows: int) -> int:
    """Return how many of the lowest `n` windows lie in the target."""
    return sum(
        (min(place.x + WINDOW[0], WIDTH) - max(place.x, 0)) * (min(place.y + WINDOW[1], HEIGHT) - max(place.y, 0))
        for place in PLACES[:windows]
    )


class _Window(ctypes.Structure):
    _numbers = ("width", "height", "x", "y", "opacity")
    _fields_ = (("pixels", ctypes.c_void_p), *((name, ctypes.c_int32) for name in _numbers))


class _Target(ctypes.Structure):
    _fields_ = (("pixels", ctypes.c_void_p), ("width", ctypes.c_int32), ("height", ctypes.c_int32))


class InC:
    """The loops of c/composite.c. NoCompiler."""

    def __init__(self, windows: list[Pixels], *, flags: tuple[str, ...] = BASELINE, in_bands: bool = False) -> None:
        self.picture: Pixels = np.zeros((HEIGHT, WIDTH, 4), np.uint8)  # what it has drawn
        self._kept = windows
        i32, windows_type = ctypes.c_int32, ctypes.POINTER(_Window)
        types = ctypes.POINTER(_Target), ctypes.c_uint32, windows_type, i32, i32, ctypes.c_long
        self._time = compiler.function(compiler.library("composite.c", flags=flags), "time_composites", *types)
        self._band = _BAND if in_bands else HEIGHT
        self._target = _Target(self.picture.ctypes.data, WIDTH, HEIGHT)
        self._windows = (_Window * len(windows))(
            *(
                _Window(pixels.ctypes.data, *WINDOW, place.x, place.y, round(255 * place.opacity))
                for pixels, place in zip(windows, PLACES, strict=True)
            )
        )

    def timed(self, n: int) -> float:
        """Seconds of n composites."""
        took: float = self._time(self._target, 0xFF000000, self._windows, len(self._windows), self._band, n)
        return took
