"""Counts the shown frames of each client, over all windows that the client has had."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from vkshare.demos.desktop.order import Order
from vkshare.demos.desktop.places import NAMES, Desk, Picture

_FRESH = 0.3  # seconds without a new frame after which a client counts as stalled
_RATE_OVER = 1.0  # seconds


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


class _Member:
    """The counters of one client name."""

    def __init__(self, name: str, index: int) -> None:
        self.count = Count(name)
        self.order = Order(index)
        self._index = index
        self._window: Any = None
        self._before = (0, 0, 0)  # of windows that are gone
        self._now = (0, 0, 0)
        self._marked = (time.monotonic(), 0)
        self._changed = 0.0

    @property
    def window(self) -> Any:
        """The newest; None: it has none now."""
        return self._window

    def take(self, window: Any) -> None:
        """The window that it has now, or None."""
        if window is not None and window is not self._window:
            self._settle()
            self._window = window
            self.count.windows += 1
            self.order = Order(self._index)
            self.count.detail = window.title.partition(":")[2].strip()
        elif window is None and self._window is not None:
            self._settle()
            self._window = None
        self._read(time.monotonic())

    def _settle(self) -> None:
        """The last numbers of a window that is going."""
        if self._window is not None:
            self._now = _numbers(self._window)
        self._before = tuple(map(sum, zip(self._before, self._now, strict=True)))  # type: ignore[assignment]
        self._now = (0, 0, 0)

    def _read(self, now: float) -> None:
        count, shown = self.count, self.count.shown
        if self._window is not None:
            self._now = _numbers(self._window)
        count.shown, count.lost, count.superseded = map(sum, zip(self._before, self._now, strict=True))
        if count.shown > shown:
            self._changed = now
        since, then = self._marked
        if now - since >= _RATE_OVER:
            count.rate = (count.shown - then) / (now - since)
            self._marked = now, count.shown
        count.state = self._state(now)

    def _state(self, now: float) -> str:
        if self._window is None or self._window.is_closed:
            return "not here"
        if self._window.end:
            return "gone"
        return "live" if now - self._changed < _FRESH else "keeps its frame"


class Census:
    """Counts a compositor's windows. For one thread."""

    def __init__(self, compositor: Any, desk: Desk) -> None:
        self._compositor = compositor
        self._desk = desk
        self._members = {name: _Member(name, index) for index, name in enumerate(NAMES)}

    @property
    def counts(self) -> list[Count]:
        return [member.count for member in self._members.values()]

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
            if member.window is None:
                continue
            window = member.window
            at, size = (round(window.x), round(window.y)), (window.width, window.height)
            fault = member.order.look(pixels, at, Picture(*size))
            member.count.looks = max(member.count.looks, member.order.looks)
            if fault:
                member.count.faults.append(fault)


def _numbers(window: Any) -> tuple[int, int, int]:
    reported = window.statistics()
    return reported.shown, reported.lost, reported.superseded
