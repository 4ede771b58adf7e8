"""Positions of the clients on the desktop."""

from __future__ import annotations

from dataclasses import dataclass

from vkshare.demos.layout import Layout, Rect

DESIGNED_FOR = (1280, 720)  # units: places below are in these


@dataclass(frozen=True, slots=True)
class Seat:
    """A client's: what its windows are called, and where they are."""

    name: str
    place: Rect  # units
    colour: tuple[int, int, int, int]
    has_slot: bool = True  # a frame on the wallpaper, with its name


SEATS = (
    Seat("cube", (32, 124, 572, 322), (69, 214, 237, 255)),
    Seat("ribbons", (624, 124, 302, 140), (255, 184, 77, 255)),
    Seat("clock", (946, 124, 302, 140), (250, 97, 148, 255)),
    Seat("tensor", (624, 306, 302, 140), (160, 140, 255, 255)),
    Seat("bars", (946, 306, 302, 140), (110, 231, 160, 255)),
    Seat("slow", (32, 488, 276, 200), (255, 184, 77, 255)),
    Seat("crash", (328, 488, 276, 200), (250, 97, 148, 255)),
    Seat("drifter", (1012, 28, 236, 60), (240, 238, 255, 255), has_slot=False),
)
PANEL = Seat("statistics", (624, 488, 624, 200), (188, 184, 222, 255))
DRIFT = ((1012, 28), (700, 28), (330, 150), (60, 330), (420, 300), (660, 180), (980, 170), (1000, 350), (690, 340))
NAMES = tuple(seat.name for seat in SEATS)


@dataclass(frozen=True, slots=True)
class Desk:
    """The desktop in pixels: places are scaled alike in both directions, and centred."""

    width: int
    height: int

    @property
    def unit(self) -> float:
        """Pixels."""
        return min(self.width / DESIGNED_FOR[0], self.height / DESIGNED_FOR[1])

    def point(self, x: float, y: float) -> tuple[int, int]:
        left = (self.width - DESIGNED_FOR[0] * self.unit) / 2
        top = (self.height - DESIGNED_FOR[1] * self.unit) / 2
        return round(left + x * self.unit), round(top + y * self.unit)

    def rect(self, place: Rect) -> Rect:
        x, y, width, height = place
        (left, top), (right, bottom) = self.point(x, y), self.point(x + width, y + height)
        return left, top, right - left, bottom - top


@dataclass(frozen=True, slots=True)
class Picture(Layout):
    """The layout of one client, with the object in its middle. The frame's number is at render_mark."""

    @property
    def is_wide(self) -> bool:
        return True

    @property
    def object_centre(self) -> tuple[float, float]:
        return 0.5 * self.width, 0.43 * self.height

    @property
    def object_scale(self) -> float:
        return 0.2 * min(self.height, 0.8 * self.width)

    @property
    def margin(self) -> int:
        return max(14, round(56 * self.unit))

    @property
    def text_mark(self) -> tuple[int, int]:
        return self.margin, self.height - self.mark_cell - max(4, round(20 * self.unit))
