"""Where a picture is put in a window. Pure numbers."""

from __future__ import annotations

from typing import NamedTuple

_SMALL = (640, 480)  # pixels: smaller pictures get a window that enlarges them
_LARGE = (1600, 900)  # larger ones get a window that reduces them


class Fit(NamedTuple):
    """A place in the window."""

    rect: tuple[int, int, int, int]  # x, y, width, height in pixels
    filter: str  # "nearest" | "linear"


def fit(picture: tuple[int, int], room: tuple[int, int]) -> Fit:
    """The largest place in the middle: enlarged by a whole number, so that each pixel stays one, or else reduced.

    Parameters
    ----------
    picture, room
        (width, height) in pixels, at least 1.
    """
    (width, height), (across, down) = picture, room
    times = min(across // width, down // height)
    if times >= 1:
        size = width * times, height * times
    elif across * height <= down * width:  # the width decides
        size = across, max(1, round(height * across / width))
    else:
        size = max(1, round(width * down / height)), down
    x, y = (across - size[0]) // 2, (down - size[1]) // 2
    return Fit((x, y, *size), "nearest" if times >= 1 else "linear")


def first_size(picture: tuple[int, int]) -> tuple[int, int]:
    """The size of a new window for a picture: its own where that is neither tiny nor larger than screens are."""
    width, height = picture
    times = max(1, min(_SMALL[0] // width, _SMALL[1] // height))
    enlarged = width * times, height * times
    if enlarged[0] <= _LARGE[0] and enlarged[1] <= _LARGE[1]:
        return enlarged
    return fit(picture, _LARGE).rect[2:]


def to_picture(place: Fit, picture: tuple[int, int], x: float, y: float) -> tuple[float, float]:
    """The position in the picture, in its pixels, of a position in the window, in the window's."""
    left, top, width, height = place.rect
    return (x - left) * picture[0] / width, (y - top) * picture[1] / height
