"""X11's RandR: how often a monitor shows a picture. Xvfb's modes have no timings: replies are made up."""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest

from vkshare.vsync.sources import randr

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("V22")]


def resources(*modes: tuple[int, ...]) -> bytes:
    """GetScreenResourcesCurrent's reply with two controllers, one output and (id, clock, width, height, flags)."""
    packed = b"".join(
        struct.pack("=IHHIHHHHHHHHI", mode, 0, 0, clock, 0, 0, width, 0, 0, 0, height, 0, flags)
        for mode, clock, width, height, flags in modes
    )
    return struct.pack("=BxHIIIHHHH8x", 1, 0, 0, 11, 22, 2, 1, len(modes), 0) + struct.pack("=3I", 5, 6, 7) + packed


def test_an_interval_is_computed_from_a_modes_clock_and_totals() -> None:
    modes, controllers, stamp = randr.parse_resources(
        resources(
            (1, 148_500_000, 2200, 1125, 0),  # 1080p60, CEA 861 format 16
            (2, 148_351_648, 2200, 1125, 0),
            (3, 74_250_000, 2200, 1125, 1 << 4),  # 1080i60
            (4, 25_000_000, 800, 260, 1 << 5),
            (5, 0, 0, 0, 0),  # Xvfb's
        )
    )
    assert (controllers, stamp) == ((5, 6), 22)
    assert modes == {
        1: Fraction(1, 60),
        2: Fraction(2200 * 1125, 148_351_648),
        3: Fraction(1, 60),
        4: Fraction(800 * 520, 25_000_000),
    }


def test_the_monitor_that_shows_most_of_the_window_says_the_interval() -> None:
    modes = {1: Fraction(1, 60), 2: Fraction(1, 144)}
    left, right = randr.Area(0, 0, 100, 100), randr.Area(100, 0, 100, 100)
    places = [(left, 1), (right, 2), (randr.Area(0, 0, 300, 300), 0)]  # the last one is off
    assert randr.choose_interval(randr.Area(90, 10, 15, 10), places, modes) == Fraction(1, 60)
    assert randr.choose_interval(randr.Area(95, 10, 15, 10), places, modes) == Fraction(1, 144)
    assert randr.choose_interval(randr.Area(500, 500, 10, 10), places, modes) == Fraction(1, 60)
    assert randr.choose_interval(randr.Area(0, 0, 10, 10), [(left, 9)], modes) is None
    assert randr.choose_interval(randr.Area(0, 0, 10, 10), [], modes) is None


def test_a_controllers_reply_says_what_it_shows() -> None:
    reply = struct.pack("=BBHIIhhHHIHHHH", 1, 0, 0, 0, 33, -10, 20, 1920, 1080, 77, 1, 1, 0, 0)
    assert randr.parse_controller(reply) == ((-10, 20, 1920, 1080), 77)
