"""What does device.submit() cost over calling vkQueueSubmit2 from C?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from time import perf_counter as now
from typing import TYPE_CHECKING, Any

from benchmarks import loops, over_c, pypi_vulkan, real_submit, recording
from benchmarks.measure import Samples, Spread, Timed
from benchmarks.nothing import NothingDriver
from benchmarks.over_c import Call
from benchmarks.plan import Plan
from benchmarks.report import RATIO, Must, Row

if TYPE_CHECKING:
    from vkshare import Device

_BURST = 100  # calls; some 20 us, a frame's worth and more


def run(plan: Plan) -> list[Row]:
    """On the driver that does nothing: quiet, then beside a thread that spins; then on the real drivers."""
    rows = over_c.run("submit is", _calls, plan, _beside_a_spinning_thread)
    return rows + real_submit.run(plan) + recording.run(plan) if rows else []  # these need a C compiler, too


def _calls(driver: NothingDriver, device: Device, _: object) -> list[Call]:
    """C signals as many semaphores as ours does: the fence, and the queue's own timeline."""
    commands, fence = device.record(), device.create_fence()
    theirs = [driver.semaphore(), driver.semaphore()]
    values = iter(range(1, 2**62, 2**32))

    def c(n_signals: int) -> Timed:
        return lambda n: driver.time_submits(theirs[:n_signals], next(values), n)

    plain, pypi = loops.submit(device, commands), pypi_vulkan.submits(driver)
    return [
        Call("submit(c)", plain, c(1), Must(60e-9), pypi),
        Call("submit(c, signals=f)", loops.submit_signal_next(device, commands, fence), c(2), Must(60e-9)),
        Call("submit(c, signals=((f, v+1),))", loops.submit_signal_value(device, commands, fence), c(2), Must(150e-9)),
    ]


# ---- beside a thread that spins in Python -------------------------------------------------------------------------


def _beside_a_spinning_thread(call: Call, place: str, plan: Plan) -> Row:
    """Bursts of calls: giving the GIL away in each would mean to wait a switch interval (5 ms) for it every time."""
    alone: Samples = []
    busy: Samples = []
    end = now() + plan.seconds
    while now() < end:
        alone += _bursts(call.ours)
        with _spinning():
            busy += _bursts(call.ours)
    quiet = Spread.of(alone)
    figure = Spread.of([sample / quiet.median for sample in busy])
    note = "bursts of 100 calls; a burst in which the switch interval ended has the other thread's 5 ms in it (MAX)"
    compared: dict[str, Any] = {"against": "quiet", "others": {"quiet": quiet}, "note": note}
    what = f"{call.what}, a thread spins"
    return Row(what, place, Spread.of(busy), None, RATIO, figure, Must(2.0), **compared)


def _bursts(timed: Timed) -> Samples:
    """Return a batch size for about 20 ms: four switch intervals."""
    end = now() + 20e-3
    samples = [timed(_BURST) / _BURST for _ in range(5)]
    while now() < end:
        samples.append(timed(_BURST) / _BURST)
    return samples


@contextlib.contextmanager
def _spinning() -> Iterator[None]:
    stop = False

    def spin() -> None:
        while not stop:
            pass

    thread = threading.Thread(target=spin, name="spin", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop = True
        thread.join()
