"""Where things are in a frame of the demo: what the renderer and the text process draw, and where the checker looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

Rect = tuple[int, int, int, int]  # x, y, width, height in pixels

SMALLEST = (256, 144)  # width, height: below, the text cannot be read and the marks do not fit


@dataclass(frozen=True, slots=True)
class Layout:
    """All places follow from the frame's size. Wide frames have the text on the left, others above the object."""

    width: int
    height: int

    @classmethod
    def at_least(cls, width: int, height: int) -> Self:
        """One of that size, or of the smallest."""
        return cls(max(width, SMALLEST[0]), max(height, SMALLEST[1]))

    @property
    def is_wide(self) -> bool:
        return self.width >= 1.3 * self.height

    @property
    def unit(self) -> float:
        """Pixels; 1 in a frame of 1280x720. Text and margins scale with it."""
        return min(self.width / (1280 if self.is_wide else 720), self.height / 720)

    @property
    def margin(self) -> int:
        return round(56 * self.unit)

    # ---- the object -----------------------------------------------------------------------------------------------

    @property
    def object_centre(self) -> tuple[float, float]:
        """Pixels: where the object's centre is projected to."""
        return (0.69 * self.width, 0.44 * self.height) if self.is_wide else (0.5 * self.width, 0.53 * self.height)

    @property
    def object_scale(self) -> float:
        """Pixels that one unit of length at the object's distance has."""
        return 0.192 * (self.height if self.is_wide else min(self.width * 0.95, self.height * 0.66))

    # ---- text -----------------------------------------------------------------------------------------------------

    @property
    def text_area(self) -> Rect:
        """Everything that the text process draws lies in it."""
        return 0, 0, round(0.45 * self.width) if self.is_wide else self.width, self.height

    @property
    def title(self) -> Rect:
        return self.margin, round(52 * self.unit), round(330 * self.unit), round(96 * self.unit)

    @property
    def live_line(self) -> Rect:
        """The frame number, the time and the rate."""
        top = round(560 * self.unit) if self.is_wide else self.height - round(160 * self.unit)
        return self.margin, top, round(430 * self.unit), round(48 * self.unit)

    @property
    def live_area(self) -> Rect:
        """The area of the changing text: the live line and its bar, and the text process's squares."""
        x, y, width, _ = self.live_line
        return x, y, max(width, BITS * self.mark_cell), self.height - y

    @property
    def graph(self) -> Rect:
        """The area of the frame times: low on the right, over the renderer's squares."""
        width, height = round((300 if self.is_wide else 168) * self.unit), round(104 * self.unit)
        bottom = self.render_mark[1] - round(16 * self.unit)
        return self.width - self.margin - width, bottom - height, width, height

    # ---- marks: the frame number in squares, light for 1 ------------------------------------------------------------

    @property
    def mark_cell(self) -> int:
        """Pixels a side of one square."""
        return max(2, round(5 * self.unit))

    @property
    def text_mark(self) -> tuple[int, int]:
        """x, y of the top left of the text process's squares."""
        return self.margin, self.height - max(self.mark_cell + 2, round(30 * self.unit))

    @property
    def render_mark(self) -> tuple[int, int]:
        """x, y of the top left of the renderer's squares."""
        return self.width - self.margin - BITS * self.mark_cell, self.text_mark[1]


BITS = 24  # squares in a mark
