"""Whether a client's frames are shown in order: by the numbers in the pictures, as they are composited."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkshare.demos import marks
from vkshare.demos.layout import BITS, Layout

_REACH = 4096  # frames that may lie between two looks, either way


class Order:
    """The numbers of one window's frames. Covered and fading windows are not checked."""

    def __init__(self, client: int) -> None:
        self._client = client
        self.last = 0  # the newest number seen
        self.looks = 0  # numbers read

    def look(self, pixels: Any, at: tuple[int, int], layout: Layout) -> str:
        """At a picture of the whole desktop, the window's top left being at `at`; says what is wrong, or ""."""
        x, y = layout.render_mark[0] + at[0], layout.render_mark[1] + at[1]
        cell = layout.mark_cell
        height, width = pixels.shape[:2]
        if min(x, y) < 0 or x + BITS * cell > width or y + cell > height:
            return ""
        return self.seen(marks.read(pixels, (x, y), cell))

    def seen(self, code: int) -> str:
        """A mark; -1 where there is none."""
        if code < 0:
            return ""
        later = _first(code, range(self.last, self.last + _REACH), self._client)
        earlier = _first(code, range(max(0, self.last - _REACH), self.last), self._client)
        if later is not None:
            self.last = later
            self.looks += 1
        elif earlier is not None:
            return f"frame {earlier} was shown after frame {self.last}"
        return ""


def _first(code: int, frames: range, client: int) -> int | None:
    numbers: Any = np.arange(frames.start, frames.stop)
    found = np.flatnonzero(np.equal(marks.code(numbers, client), code))
    return frames.start + int(found[0]) if len(found) else None
