"""What do a fence's own calls cost over calling the driver's from C?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.bench import loops
from vkshare.bench.compiler import NoCompiler
from vkshare.bench.measure import Contender, Spread, Timed, differences, take_turns
from vkshare.bench.nothing import VK_DEVICE, NothingDriver
from vkshare.bench.placement import alone, placed
from vkshare.bench.plan import Plan
from vkshare.bench.report import OVER_C, Must, Row

if TYPE_CHECKING:
    from vkshare import Device

_MUST = Must(80e-9)
_START = 2**40  # where the values that are waited for end


@dataclass(frozen=True, slots=True)
class _Call:
    what: str
    ours: Timed
    c: Timed
    lags: bool = False  # the driver has work under way
    must: Must | None = _MUST


def run(plan: Plan) -> list[Row]:
    """fence.value, fence.signal and a wait for what is reached, on the driver that does nothing."""
    try:
        driver = NothingDriver()
    except NoCompiler as error:
        plan.note(f"host-ops are measured on a driver in C: {error}")
        return []
    rows = []
    with driver.open() as device:
        calls = _calls(driver, device)
        for place in alone(plan.pinned_only):
            with placed(place):
                for call in calls:
                    plan.progress(f"{call.what}, {place.name}")
                    rows.append(_row(driver, call, place.name, plan))
    return rows


def _row(driver: NothingDriver, call: _Call, place: str, plan: Plan) -> Row:
    contenders = [Contender("loop", loops.empty), Contender("ours", call.ours), Contender("c", call.c)]
    with _lagging(driver) if call.lags else contextlib.nullcontext():
        samples = take_turns(contenders, plan.seconds)
    return Row(
        what=call.what,
        place=place,
        ours=differences(samples["ours"], samples["loop"]),
        theirs=Spread.of(samples["c"]),
        kind=OVER_C,
        figure=differences(samples["ours"], samples["loop"], samples["c"]),
        must=call.must,
    )


def _calls(driver: NothingDriver, device: Device) -> list[_Call]:
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

    return [
        _Call("fence.value", loops.fence_value(still), c_values),
        _Call("fence.value, work under way", loops.fence_value(busy), c_values, lags=True),
        _Call("fence.signal(v + 1)", loops.fence_signal(signalled), c_signals),
        _Call("fence.wait(v), reached", loops.fence_wait(still), c_waits),
    ]


@contextlib.contextmanager
def _lagging(driver: NothingDriver) -> Iterator[None]:
    driver.lag(1)
    try:
        yield
    finally:
        driver.lag(0)
