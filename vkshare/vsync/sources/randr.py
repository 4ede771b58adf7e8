"""Refresh intervals of monitors, by X11's RandR extension (1.2, 1.3)."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import NamedTuple

from vkshare.window.x11_connection import X11Connection

_INTERLACE, _DOUBLE_SCAN = 1 << 4, 1 << 5  # flags of a mode


class Area(NamedTuple):
    """A rectangle of the root window, in pixels."""

    x: int
    y: int
    width: int
    height: int

    def common(self, other: Area) -> int:
        """Returns the number of pixels in both areas."""
        width = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        height = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return max(width, 0) * max(height, 0)


def interval_of(x: X11Connection, window_id: int) -> Fraction | None:
    """Returns the refresh interval, in seconds, of the monitor that shows most of the window; None if it is unknown.

    XError: there is no such window.
    """
    area, root = _area(x, window_id)
    if x.extension("RANDR") is None:
        return None
    major, minor = struct.unpack_from("=II", x.reply(x.randr.QueryVersion(1, 3)), 8)
    if (major, minor) < (1, 3):  # GetScreenResourcesCurrent; the older request has the server probe its monitors
        return None
    resources = x.reply(x.randr.GetScreenResourcesCurrent(root))
    modes, controllers, stamp = parse_resources(resources)
    places = [parse_controller(x.reply(x.randr.GetCrtcInfo(each, stamp))) for each in controllers]
    return choose_interval(area, places, modes)


def choose_interval(area: Area, places: list[tuple[Area, int]], modes: dict[int, Fraction]) -> Fraction | None:
    """Returns the interval of the monitor that shows most of `area`; `places` are the monitors' areas and modes."""
    shown = [(area.common(place), -index, modes.get(mode)) for index, (place, mode) in enumerate(places) if mode]
    return max(shown)[2] if shown else None


def parse_resources(reply: bytes) -> tuple[dict[int, Fraction], tuple[int, ...], int]:
    """Returns intervals by mode, the ids of the controllers (CRTCs), and the time stamp for requests about them.

    `reply`: GetScreenResourcesCurrent's. A mode without timings, as virtual servers have, is left
    out.
    """
    stamp, n_controllers, n_outputs, n_modes = struct.unpack_from("=IHHH", reply, 12)
    at = 32
    controllers = struct.unpack_from(f"={n_controllers}I", reply, at)
    at += 4 * (n_controllers + n_outputs)
    modes: dict[int, Fraction] = {}
    for _ in range(n_modes):
        # id, size, dot clock in Hz, three of the horizontal line, its total, skew, two vertical,
        # the total, name, flags
        mode, dot_clock, width, height, flags = struct.unpack_from("=I4xI4xH6xH2xI", reply, at)
        at += 32
        lines = Fraction(height) * (2 if flags & _DOUBLE_SCAN else 1) / (2 if flags & _INTERLACE else 1)
        if dot_clock and width and height:
            modes[mode] = width * lines / dot_clock
    return modes, controllers, stamp


def parse_controller(reply: bytes) -> tuple[Area, int]:
    """Returns a controller's area of the root window, and its mode; 0: it is off. `reply`: GetCrtcInfo's."""
    x, y, width, height, mode = struct.unpack_from("=hhHHI", reply, 12)
    return Area(x, y, width, height), mode


def _area(x: X11Connection, window_id: int) -> tuple[Area, int]:
    """Returns the window's area, and its root window."""
    root, width, height = struct.unpack_from("=I4xHH", x.ask(x.core.GetGeometry, window_id), 8)
    left, top = struct.unpack_from("=hh", x.ask(x.core.TranslateCoordinates, window_id, root, 0, 0), 12)
    return Area(left, top, width, height), root
