"""Timed loops, as a program writes them: each does n calls and returns the seconds that they took."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.measure import Timed, timed

if TYPE_CHECKING:
    from vkshare import CommandList, Device, Fence, Surface

FIRST = 2**33  # values that are no small ints and do not fit 32 bits


@timed
def empty(n: int) -> None:
    """The loop itself, with growing values: what is taken off every other."""
    for value in range(FIRST, FIRST + n):  # noqa: B007
        pass


def drained(each: Timed, most: int, wait: Callable[[], object]) -> Timed:
    """A loop of submissions of which at most so many are in flight: wait() is called between, outside of the time."""

    def loop(n: int) -> float:
        seconds = 0.0
        for done in range(0, n, most):
            seconds += each(min(most, n - done))
            wait()
        return seconds

    return loop


def submit(device: Device, commands: CommandList) -> Timed:
    """submit(c)."""

    @timed
    def loop(n: int) -> None:
        for value in range(FIRST, FIRST + n):  # noqa: B007
            device.submit(commands)

    return loop


def submit_signal_next(device: Device, commands: CommandList, fence: Fence) -> Timed:
    """submit(c, signals=fence)."""

    @timed
    def loop(n: int) -> None:
        for value in range(FIRST, FIRST + n):  # noqa: B007
            device.submit(commands, signals=fence)

    return loop


def submit_signal_value(device: Device, commands: CommandList, fence: Fence) -> Timed:
    """submit(c, signals=((f, v + 1),))."""

    @timed
    def loop(n: int) -> None:
        first = fence.queued_value + 1
        for value in range(first, first + n):
            device.submit(commands, signals=((fence, value),))

    return loop


def fence_value(fence: Fence) -> Timed:
    """fence.value."""

    @timed
    def loop(n: int) -> None:
        for value in range(FIRST, FIRST + n):  # noqa: B007
            fence.value  # noqa: B018

    return loop


def fence_signal(fence: Fence) -> Timed:
    """fence.signal(v + 1)."""

    @timed
    def loop(n: int) -> None:
        first = fence.queued_value + 1
        for value in range(first, first + n):
            fence.signal(value)

    return loop


def fence_wait(fence: Fence) -> Timed:
    """fence.wait(v), v reached already and another on every call."""

    @timed
    def loop(n: int) -> None:
        last = fence.value
        for value in range(last - n + 1, last + 1):
            fence.wait(value)

    return loop


def acquire_release(surface: Surface) -> Timed:
    """surface.acquire(0), surface.release(0)."""

    @timed
    def loop(n: int) -> None:
        for value in range(FIRST, FIRST + n):  # noqa: B007
            surface.acquire(0)
            surface.release(0)

    return loop
