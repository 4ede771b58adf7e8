"""What do a fence's own calls cost over calling the driver's from C?"""

from __future__ import annotations

from typing import Any

from benchmarks.compiler import seconds
from benchmarks.measure import Timed, counted
from benchmarks.nothing import VK_DEVICE, NothingDriver
from benchmarks.plan import Plan

_MOST: dict[str, Any] = {"most": 80e-9, "over_c": True}
_START = 2**40  # where the values that are waited for end


def run(plan: Plan) -> None:
    """fence.value, fence.signal and a wait for what is reached, on the driver that does nothing."""
    with plan.noting("host-ops are measured on a driver in C"):
        _run(plan, NothingDriver())


def _run(plan: Plan, driver: NothingDriver) -> None:
    lib, theirs, done = driver.lib, driver.semaphore(), driver.semaphore()
    get, signal, wait = map(driver.function, ("vkGetSemaphoreCounterValue", "vkSignalSemaphore", "vkWaitSemaphores"))
    lib.time_signals(signal, VK_DEVICE, done, _START, 1)
    values = iter(range(1, 2**62, 2**32))
    c: dict[str, Timed] = {
        "get": lambda n: seconds(lib.time_values(get, VK_DEVICE, theirs, n)),
        "signal": lambda n: seconds(lib.time_signals(signal, VK_DEVICE, theirs, next(values), n)),
        "wait": lambda n: seconds(lib.time_waits(wait, VK_DEVICE, done, _START - n, n)),
    }
    with driver.open() as device:
        still, signalled = device.create_fence(_START), device.create_fence()
        value = counted("fence.value", fence=still)
        signals = counted("fence.signal(value)", "fence.queued_value + 1", fence=signalled)
        waits = counted("fence.wait(value)", "fence.value - n + 1", fence=still)
        for _ in plan.alone():
            plan.calls("fence.value", {"ours": value, "c": c["get"]}, **_MOST)
            driver.lag(1)
            busy = device.create_fence()
            device.submit(signals=((busy, _START),))  # the driver counts up to it, one a look, until the lag ends
            looks = counted("fence.value", fence=busy)
            plan.calls("fence.value, work under way", {"ours": looks, "c": c["get"]}, **_MOST)
            driver.lag(0)
            plan.calls("fence.signal(v + 1)", {"ours": signals, "c": c["signal"]}, **_MOST)
            plan.calls("fence.wait(v), reached", {"ours": waits, "c": c["wait"]}, **_MOST)
