"""Timed loops, as a program writes them: each does n calls and returns the seconds that they took."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Timed

if TYPE_CHECKING:
    from vkshare import CommandList, Device, Fence, Surface

FIRST = 2**33  # values that are no small ints and do not fit 32 bits
_SOURCE = """
def make(now, {names}):
    def loop(n):
        start = now()
        first = {first}
        for value in range(first, first + n):
            {statement}
        return now() - start
    return loop
"""


def counted(statement: str, first: str = str(FIRST), **names: object) -> Timed:
    """A loop of the statement in which `value` grows from `first` on, compiled as timeit does: no call comes between.

    `names`: those of the statement.
    """
    scope: dict[str, Any] = {}
    exec(_SOURCE.format(names=", ".join(names), first=first, statement=statement), scope)
    loop: Timed = scope["make"](perf_counter, **names)
    return loop


empty = counted("pass")  # the loop itself, with growing values: what is taken off every other


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
    return counted("device.submit(commands)", device=device, commands=commands)


def submit_signal_next(device: Device, commands: CommandList, fence: Fence) -> Timed:
    """submit(c, signals=fence)."""
    return counted("device.submit(commands, signals=fence)", device=device, commands=commands, fence=fence)


def submit_signal_value(device: Device, commands: CommandList, fence: Fence) -> Timed:
    """submit(c, signals=((f, v + 1),))."""
    call = "device.submit(commands, signals=((fence, value),))"
    return counted(call, "fence.queued_value + 1", device=device, commands=commands, fence=fence)


def fence_value(fence: Fence) -> Timed:
    """fence.value."""
    return counted("fence.value", fence=fence)


def fence_signal(fence: Fence) -> Timed:
    """fence.signal(v + 1)."""
    return counted("fence.signal(value)", "fence.queued_value + 1", fence=fence)


def fence_wait(fence: Fence) -> Timed:
    """fence.wait(v), v reached already and another on every call."""
    return counted("fence.wait(value)", "fence.value - n + 1", fence=fence)


def acquire_release(surface: Surface) -> Timed:
    """surface.acquire(0), surface.release(0)."""
    return counted("surface.acquire(0); surface.release(0)", surface=surface)
