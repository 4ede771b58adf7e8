"""What do a fence's own calls cost over calling the driver's from C?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import loops, over_c
from benchmarks.nothing import VK_DEVICE, NothingDriver
from benchmarks.over_c import Call
from benchmarks.plan import Plan
from benchmarks.report import Must, Row

if TYPE_CHECKING:
    from vkshare import Device

_MUST = Must(80e-9)
_START = 2**40  # where the values that are waited for end


def run(plan: Plan) -> list[Row]:
    """fence.value, fence.signal and a wait for what is reached, on the driver that does nothing."""
    return over_c.run("host-ops are", _calls, plan)


def _calls(driver: NothingDriver, device: Device, _: object) -> list[Call]:
    still, signalled, busy = device.create_fence(_START), device.create_fence(), device.create_fence()
    driver.lag(1)
    device.submit(signals=((busy, _START),))  # the driver counts up to it, one a look, until the lag ends
    theirs = driver.semaphore()
    get, signal, wait = map(driver.function, ("vkGetSemaphoreCounterValue", "vkSignalSemaphore", "vkWaitSemaphores"))
    values = iter(range(1, 2**62, 2**32))

    def c_values(n: int) -> float:
        return float(driver.time_values(get, VK_DEVICE, theirs, n))

    def c_signals(n: int) -> float:
        return float(driver.time_signals(signal, VK_DEVICE, theirs, next(values), n))

    def c_waits(n: int) -> float:
        driver.time_signals(signal, VK_DEVICE, theirs, _START, 1)
        return float(driver.time_waits(wait, VK_DEVICE, theirs, _START - n, n))

    lagging = partial(_lagging, driver)
    return [
        Call("fence.value", loops.fence_value(still), c_values, _MUST),
        Call("fence.value, work under way", loops.fence_value(busy), c_values, _MUST, around=lagging),
        Call("fence.signal(v + 1)", loops.fence_signal(signalled), c_signals, _MUST),
        Call("fence.wait(v), reached", loops.fence_wait(still), c_waits, _MUST),
    ]


@contextlib.contextmanager
def _lagging(driver: NothingDriver) -> Iterator[None]:
    driver.lag(1)
    try:
        yield
    finally:
        driver.lag(0)
