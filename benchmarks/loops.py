"""Timed loops, as a program writes them: each does n calls and returns the seconds that they took."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter as now
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkshare import CommandList, Device, Fence, Surface

FIRST = 2**33  # values that are no small ints and do not fit 32 bits


def empty(n: int) -> float:
    """The loop itself, with growing values: what is taken off every other."""
    values = range(FIRST, FIRST + n)
    start = now()
    for value in values:  # noqa: B007
        pass
    return now() - start


def drained(timed: Callable[[int], float], most: int, wait: Callable[[], object]) -> Callable[[int], float]:
    """A loop of submissions of which at most so many are in flight: wait() is called between, outside of the time."""

    def loop(n: int) -> float:
        seconds = 0.0
        for done in range(0, n, most):
            seconds += timed(min(most, n - done))
            wait()
        return seconds

    return loop


def submit(device: Device, commands: CommandList) -> Callable[[int], float]:
    """submit(c)."""

    def loop(n: int) -> float:
        values = range(FIRST, FIRST + n)
        start = now()
        for value in values:  # noqa: B007
            device.submit(commands)
        return now() - start

    return loop


def submit_signal_next(device: Device, commands: CommandList, fence: Fence) -> Callable[[int], float]:
    """submit(c, signals=fence)."""

    def loop(n: int) -> float:
        values = range(FIRST, FIRST + n)
        start = now()
        for value in values:  # noqa: B007
            device.submit(commands, signals=fence)
        return now() - start

    return loop


def submit_signal_value(device: Device, commands: CommandList, fence: Fence) -> Callable[[int], float]:
    """submit(c, signals=((f, v + 1),))."""

    def loop(n: int) -> float:
        first = fence.queued_value + 1
        values = range(first, first + n)
        start = now()
        for value in values:
            device.submit(commands, signals=((fence, value),))
        return now() - start

    return loop


def fence_value(fence: Fence) -> Callable[[int], float]:
    """fence.value."""

    def loop(n: int) -> float:
        values = range(FIRST, FIRST + n)
        start = now()
        for value in values:  # noqa: B007
            fence.value  # noqa: B018
        return now() - start

    return loop


def fence_signal(fence: Fence) -> Callable[[int], float]:
    """fence.signal(v + 1)."""

    def loop(n: int) -> float:
        first = fence.queued_value + 1
        values = range(first, first + n)
        start = now()
        for value in values:
            fence.signal(value)
        return now() - start

    return loop


def fence_wait(fence: Fence) -> Callable[[int], float]:
    """fence.wait(v), v reached already and another on every call."""

    def loop(n: int) -> float:
        last = fence.value
        values = range(last - n + 1, last + 1)
        start = now()
        for value in values:
            fence.wait(value)
        return now() - start

    return loop


def acquire_release(surface: Surface) -> Callable[[int], float]:
    """surface.acquire(0), surface.release(0)."""

    def loop(n: int) -> float:
        values = range(FIRST, FIRST + n)
        start = now()
        for value in values:  # noqa: B007
            surface.acquire(0)
            surface.release(0)
        return now() - start

    return loop
