"""The snapshot of a compositor's counters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompositorStatistics:
    """A snapshot of a compositor's counters. Frames are summed over all windows, including closed ones."""

    ticks: int  # taken
    missed: int  # ticks that passed before the thread took one: it was late
    composites: int  # presented
    skipped: int  # ticks without a composite, because the last was unfinished, or no image was free
    shown: int  # frames of windows that were in a composite; see WindowStatistics
    superseded: int
    lost: int
    windows: int  # open now
    wakeups: int  # of the thread
    devices: int  # opened; more than 1 after a device loss
    latest: float  # seconds: the longest from a tick's vsync time to the start of its composite
    longest: float  # seconds: the longest from there to the completion of its GPU work
