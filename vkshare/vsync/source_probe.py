"""The trial of a source: receives its ticks for a moment, and judges by their times whether it ticks like a display."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from vkshare.errors import VkshareError

if TYPE_CHECKING:
    from vkshare.vsync.sources.base import VsyncSource

SECONDS = 0.3  # seven ticks of 24 Hz
LONGEST = 60.0  # seconds of a trial
_FEWEST = 4  # ticks
_HIGHEST_RATE = 1000  # Hz; unpaced presents are faster
# Share of the ticks between the first and the end that must arrive. A display loses none, but
# Python may be late.
_SHARE = 0.5
# The median distance from a regular grid, in intervals. Times at random are 1/4 off it; Xvfb's at
# 240 Hz, from a timer of whole milliseconds, 1/16.
_MOST_OFF = 1 / 8
# A driver may stamp a tick with the time of the first pixel out, and report it when the blank
# begins, as DRM does.
_MOST_EARLY = 1 / 4
_MOST_LATE = 1_000_000_000  # ns; an older time is of another clock
_AGREE = 0.01  # of the measured interval; or three times its error, whichever is larger


class TimedTick(NamedTuple):
    """A tick, and when it was received, in ns of CLOCK_MONOTONIC."""

    time_ns: int
    received_ns: int
    msc: int | None = None  # the display's own count of blanks, if it has one


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of trying a source."""

    works: bool
    why: str  # the reason, in both cases
    # seconds: as the source reports it, if the measurement agrees; else as measured
    interval: Fraction | None = None
    sigma: float | None = None  # seconds: standard deviation of the ticks from a regular grid


def try_source(source: VsyncSource, seconds: float = SECONDS) -> Trial:
    """Runs a stopped source for a while and judges it; if it works, ``source.interval`` is the trial's interval.

    Parameters
    ----------
    source
        A source that is not running; it is stopped afterwards, and stays the caller's.
    seconds
        Seconds for which the call blocks, above 0, up to 60; less if the source is lost meanwhile.

    Returns
    -------
    Trial
        Whether it works, and why. A source that is lost does not work.

    Raises
    ------
    ValueError
        `seconds` is out of its bounds.
    InvalidCallError, ClosedError
        The source is running, or closed.
    """
    seconds = float(seconds)
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"seconds is {seconds}; allowed is above 0, up to {LONGEST:g}")
    ticks: list[TimedTick] = []
    losses: list[Exception] = []
    is_lost = threading.Event()

    def lost(error: Exception) -> None:
        losses.append(error)
        is_lost.set()

    try:
        source._start(lambda blank: ticks.append(TimedTick(blank.time_ns, time.monotonic_ns(), blank.msc)), lost)
    except VkshareError as error:
        if source.is_lost:
            return Trial(False, str(error))
        raise
    try:
        is_lost.wait(seconds)
    finally:
        source.stop()
    if losses:
        return Trial(False, str(losses[0]))
    trial = judge(ticks, time.monotonic_ns(), source._reported_interval)
    if trial.works:
        source._measured_interval = trial.interval
    return trial


def judge(ticks: Sequence[TimedTick], until: int, reported: Fraction | None = None) -> Trial:
    """Judges ticks by their times alone.

    Parameters
    ----------
    ticks
        The ticks, in the order received.
    until
        When the trial ended.
    reported
        The interval that the source reports, in seconds.
    """
    times = [each.time_ns for each in ticks]
    if len(times) < _FEWEST:
        return Trial(False, f"only {len(times)} ticks came; a trial needs {_FEWEST}" if times else "no ticks came")
    if any(b <= a for a, b in pairwise(times)):
        return Trial(False, "its times do not grow")
    grid = _Grid(times, [each.msc for each in ticks])
    interval = Fraction(round(grid.interval), 1_000_000_000)
    sigma = statistics.pstdev(grid.off) / 1e9
    why = _reason_to_reject(ticks, until, grid)
    if why:
        return Trial(False, why, interval, sigma)
    rate = f"{1e9 / grid.interval:.2f} Hz, sigma {sigma * 1e6:.0f} us"
    if reported is None:
        return Trial(True, f"ticks at {rate}", interval, sigma)
    if abs(grid.interval - reported * 1_000_000_000) <= max(3 * grid.error, _AGREE * grid.interval):
        return Trial(True, f"ticks at {rate}", reported, sigma)
    return Trial(True, f"ticks at {rate}, though its window system says {float(1 / reported):.2f} Hz", interval, sigma)


def _reason_to_reject(ticks: Sequence[TimedTick], until: int, grid: _Grid) -> str:
    if grid.interval * _HIGHEST_RATE < 1e9:
        return f"it ticks {1e9 / grid.interval:.0f} times a second: nothing paces it"
    late = [each.received_ns - each.time_ns for each in ticks]
    if -min(late) > _MOST_EARLY * grid.interval:
        return f"it reports ticks {-min(late) / 1e6:.1f} ms before their time"
    if max(late) > _MOST_LATE:
        return f"it reports ticks {max(late) / 1e9:.1f} s late, or by another clock"
    due = max(grid.steps[-1] + 1, (until - ticks[0].time_ns) / grid.interval)
    if len(ticks) < _SHARE * due:
        return f"{len(ticks)} of {due:.0f} ticks came"
    in_turn = sum(b - a == 1 for a, b in pairwise(grid.steps))
    if statistics.median(map(abs, grid.off)) > _MOST_OFF * grid.interval or 2 * in_turn < len(grid.steps) - 1:
        return f"its ticks, some {grid.interval / 1e6:.1f} ms apart, are not regular"
    return ""


class _Grid:
    """The regular grid that fits a series of growing times."""

    def __init__(self, times: Sequence[int], counts: Sequence[int | None]) -> None:
        rough = statistics.median(b - a for a, b in pairwise(times))
        self.steps = _counted(counts) or _steps(times, rough)  # of each time: intervals after the first one
        self.interval, self.error = _slope(self.steps, times, rough)  # ns
        places = [time_ns - times[0] - self.interval * step for time_ns, step in zip(times, self.steps, strict=True)]
        middle = statistics.median(places)
        self.off = [place - middle for place in places]  # ns, of each time: distance from its grid point


def _counted(counts: Sequence[int | None]) -> list[int]:
    """Returns the steps by the display's own count; empty if it has none, or the count does not grow."""
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or any(b <= a for a, b in pairwise(known)):
        return []
    return [count - known[0] for count in known]


def _steps(times: Sequence[int], interval: float) -> list[int]:
    """Returns the steps by the times alone.

    Follows their phase, so that a late tick hardly affects later ones. Two ticks may have the same
    step.
    """
    place = float(times[0])
    steps = [0]
    for time_ns in times[1:]:
        gone = round((time_ns - place) / interval)
        place += gone * interval
        place += (time_ns - place) / 4
        steps.append(steps[-1] + gone)
    return steps


def _slope(steps: Sequence[int], times: Sequence[int], rough: float) -> tuple[float, float]:
    """Returns the interval, the median of slopes over half of the series (robust against late ticks), and its error."""
    half = len(times) // 2
    pairs: list[Any] = list(zip(steps, times, strict=True))
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(pairs, pairs[half:], strict=False) if b[0] > a[0]]
    if len(slopes) < 2:
        return rough, rough
    return statistics.median(slopes), statistics.stdev(slopes) / len(slopes) ** 0.5
