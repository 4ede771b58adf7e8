"""Ticks of displays."""

from __future__ import annotations

import enum
import functools
from fractions import Fraction
from typing import Any, NamedTuple

KINDS = ("software", "x11-present", "present-wait", "display-control", "present-timing")  # vks_tick_kind


class TickFlags(enum.IntFlag):
    """MISSED: it came before its observer did.

    ESTIMATED: the interval is unknown, and taken to be 1/60 s. DISCONTINUITY: more than eight
    intervals went by without a tick (a suspended machine, a stopped process).
    """

    MISSED = 1
    ESTIMATED = 2
    DISCONTINUITY = 4


class Tick(NamedTuple):
    """A display's vertical blank, as delivered to one window (the model is Silk's VsyncEvent). Immutable."""

    display: int
    """Display.number of the display."""
    id: int
    """Grows strictly with every tick that is due to the window, also over moves and changes of
    source.
    """
    vsync_time: int
    """ns of CLOCK_MONOTONIC (time.monotonic_ns()); never later than now."""
    output_time: int
    """ns: the earliest time at which a frame that begins now can be visible; later than vsync_time.
    """
    interval: Fraction
    """Seconds from one tick to the next, exact: Fraction(1001, 60000)."""
    kind: str
    """The kind of source: "software", "x11-present", "present-wait", "display-control" or
    "present-timing".
    """
    flags: TickFlags = TickFlags(0)
    missed: int = 0
    """Ticks between the one that was taken before and this one."""


@functools.lru_cache(maxsize=32)
def seconds(numerator: int, denominator: int) -> Fraction:
    """Converts an interval in nanoseconds to seconds."""
    return Fraction(numerator, denominator * 10**9)


def from_native(tick: Any, missed: int) -> Tick:
    """Converts a vks_tick."""
    interval = seconds(tick.interval.numerator, tick.interval.denominator)
    kind, flags = KINDS[tick.kind], TickFlags(tick.flags)
    return Tick(tick.display, tick.id, tick.time, tick.output, interval, kind, flags, missed)
