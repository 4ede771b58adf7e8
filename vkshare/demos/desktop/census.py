"""Counts the shown frames of each client, over all windows that the client has had.

Also whether they are shown in order: by the numbers in the pictures, as they are composited.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkshare.demos import marks
from vkshare.demos.desktop.places import NAMES, Picture
from vkshare.demos.layout import BITS, Layout

_FRESH = 0.3  # seconds without a new frame after which a client counts as stalled
_RATE_OVER = 1.0  # seconds
_REACH = 4096  # frames that may lie between two looks, either way


@dataclass(slots=True)
class Count:
    """A client's. Numbers are of all its windows so far."""

    name: str
    windows: int = 0  # that it has opened
    shown: int = 0  # frames
    lost: int = 0
    superseded: int = 0
    rate: float = 0.0  # frames shown a second, lately
    state: str = "not here"
    detail: str = ""  # what it says of itself
    looks: int = 0  # frame numbers read off the screen
    faults: list[str] = field(default_factory=list)  # frames out of order


class Order:
    """The numbers of one window's frames. Covered and fading windows are not checked."""

    def __init__(self, client: int) -> None:
        self.client = client
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
        later = _first(code, range(self.last, self.last + _REACH), self.client)
        earlier = _first(code, range(max(0, self.last - _REACH), self.last), self.client)
        if later is not None:
            self.last = later
            self.looks += 1
        elif earlier is not None:
            return f"frame {earlier} was shown after frame {self.last}"
        return ""


class _Member:
    """The counters of one client name."""

    def __init__(self, name: str, index: int) -> None:
        self.count = Count(name)
        self.order = Order(index)
        self.window: Any = None  # the newest; None: it has none now
        self._before = (0, 0, 0)  # of windows that are gone
        self._now = (0, 0, 0)
        self._marked = (time.monotonic(), 0)
        self._changed = 0.0

    def take(self, window: Any) -> None:
        """The window that it has now, or None."""
        self._read()  # also the last numbers of a window that is going
        if window is not self.window:
            self._before, self._now = _sum(self._before, self._now), (0, 0, 0)
            self.window = window
            if window is not None:
                self.count.windows += 1
                self.count.detail = window.title.partition(":")[2].strip()
                self.order = Order(self.order.client)
            self._read()

    def _read(self) -> None:
        now, count, shown = time.monotonic(), self.count, self.count.shown
        if self.window is not None:
            reported = self.window.statistics()
            self._now = reported.shown, reported.lost, reported.superseded
        count.shown, count.lost, count.superseded = _sum(self._before, self._now)
        if count.shown > shown:
            self._changed = now
        since, then = self._marked
        if now - since >= _RATE_OVER:
            count.rate = (count.shown - then) / (now - since)
            self._marked = now, count.shown
        if self.window is None or self.window.is_closed:
            count.state = "not here"
        elif self.window.end:
            count.state = "gone"
        else:
            count.state = "live" if now - self._changed < _FRESH else "keeps its frame"


class Census:
    """Counts a compositor's windows. For one thread."""

    def __init__(self, compositor: Any) -> None:
        self._compositor = compositor
        self._members = {name: _Member(name, index) for index, name in enumerate(NAMES)}
        self.counts = [member.count for member in self._members.values()]

    @property
    def is_complete(self) -> bool:
        """Every client was shown."""
        return all(count.shown for count in self.counts)

    def take(self) -> None:
        """Update the counters from the current windows."""
        windows = {window.title.partition(":")[0]: window for window in self._compositor.windows}
        for name, member in self._members.items():
            member.take(windows.get(name))

    def look(self, pixels: Any) -> None:
        """At the numbers in a picture of the desktop, (H, W, 4) RGBA."""
        for member in self._members.values():
            window, count = member.window, member.count
            if window is None:
                continue
            at = round(window.x), round(window.y)
            fault = member.order.look(pixels, at, Picture(window.width, window.height))
            count.looks = max(count.looks, member.order.looks)
            if fault:
                count.faults.append(fault)


def _first(code: int, frames: range, client: int) -> int | None:
    numbers: Any = np.arange(frames.start, frames.stop)
    found = np.flatnonzero(np.equal(marks.code(numbers, client), code))
    return frames.start + int(found[0]) if len(found) else None


def _sum(a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]
