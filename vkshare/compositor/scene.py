"""The stack of windows and their positions: pure, without surfaces, threads or a clock.

Times are ns, lengths pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Tween(NamedTuple):
    """A number that changes from one value to another over a span of time."""

    start: float
    end: float
    begin: int = 0
    until: int = 0

    def at(self, time: int) -> float:
        """Returns the value at `time`, with a smooth start and end (smoothstep)."""
        # A change without duration also applies to a composite with an earlier time, as a late
        # compositor has.
        if time >= self.until or self.begin >= self.until:
            return self.end
        part = max(0.0, (time - self.begin) / (self.until - self.begin))
        return self.start + (self.end - self.start) * part * part * (3 - 2 * part)

    def to(self, value: float, time: int, duration: int) -> Tween:
        """Returns a tween from the value at `time` to another value, over `duration`."""
        return Tween(self.at(time), value, time, time + duration)


@dataclass(slots=True, eq=False)
class Placement:
    """Position, size and opacity of one window."""

    width: int
    height: int
    is_opaque: bool = False  # its picture has no alpha: windows below it need not be drawn
    has_picture: bool = False
    x: Tween = field(default=Tween(0, 0))
    y: Tween = field(default=Tween(0, 0))
    opacity: Tween = field(default=Tween(1, 1))

    def origin(self, time: int) -> tuple[int, int]:
        """Returns the pixel of the top left corner."""
        return round(self.x.at(time)), round(self.y.at(time))

    def is_changing(self, time: int) -> bool:
        return time < max(self.x.until, self.y.until, self.opacity.until)


class Drawn(NamedTuple):
    """A window in one composite."""

    window: Placement
    x: int
    y: int
    opacity: float


class _Edges(NamedTuple):
    left: int
    top: int
    right: int
    bottom: int

    def covers(self, other: _Edges) -> bool:
        across = self.left <= other.left <= other.right <= self.right
        return across and self.top <= other.top <= other.bottom <= self.bottom


class Scene:
    """A stack of windows. Not thread-safe."""

    def __init__(self) -> None:
        self._stack: list[Placement] = []  # bottom to top

    @property
    def stack(self) -> tuple[Placement, ...]:
        """Bottom to top."""
        return tuple(self._stack)

    def add(self, window: Placement) -> None:
        """Adds a window on top."""
        self._stack.append(window)

    def remove(self, window: Placement) -> None:
        self._stack.remove(window)

    def raise_to_top(self, window: Placement) -> None:
        """Moves the window in the stack. No effect if it is not in the stack."""
        if window in self._stack:
            self._stack.remove(window)
            self._stack.append(window)

    def lower_to_bottom(self, window: Placement) -> None:
        """Moves the window in the stack. No effect if it is not in the stack."""
        if window in self._stack:
            self._stack.remove(window)
            self._stack.insert(0, window)

    def at(self, x: float, y: float, time: int) -> Placement | None:
        """Returns the topmost visible window at that point."""
        for window in reversed(self._stack):
            left, top = window.origin(time)
            inside = left <= x < left + window.width and top <= y < top + window.height
            if inside and window.has_picture and window.opacity.at(time) > 0:
                return window
        return None

    def is_changing(self, time: int) -> bool:
        """Returns whether a window still moves or fades."""
        return any(window.is_changing(time) for window in self._stack)

    def draw_list(self, time: int, width: int, height: int) -> tuple[list[Drawn], bool]:
        """Returns the windows visible in a target of that size, bottom to top, and whether they cover the target.

        Windows that an opaque one hides, or that lie outside the target, are left out.
        """
        target = _Edges(0, 0, width, height)
        seen: list[Drawn] = []
        hiding: list[_Edges] = []
        for window in reversed(self._stack):
            opacity = window.opacity.at(time)
            x, y = window.origin(time)
            shown = _Edges(max(x, 0), max(y, 0), min(x + window.width, width), min(y + window.height, height))
            is_outside = shown.left >= shown.right or shown.top >= shown.bottom
            if is_outside or opacity <= 0 or not window.has_picture or any(edges.covers(shown) for edges in hiding):
                continue
            seen.append(Drawn(window, x, y, opacity))
            if window.is_opaque and opacity >= 1:
                hiding.append(shown)
                if shown.covers(target):
                    break
        return seen[::-1], bool(hiding) and hiding[-1].covers(target)

    def __repr__(self) -> str:
        return f"<vkshare.compositor.Scene of {len(self._stack)} windows>"
