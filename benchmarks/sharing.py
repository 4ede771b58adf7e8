"""What does a second handle of a surface cost on the same device, and a hand-over to it, against a device more?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import cycle, islice
from time import perf_counter as now

import vkshare
from benchmarks.measure import Contender, Timed, take_turns
from benchmarks.placement import alone, placed
from benchmarks.plan import Plan
from benchmarks.report import Must, Row, ratio_row

_TURN = 10e-3  # seconds
_OPEN_MUST = Must(0.2)
_HAND_OVER_MUST = Must(1.0)


def rows(plan: Plan) -> list[Row]:
    """On the best Vulkan adapter, if there is one, and on the CPU backend."""
    found = []
    for adapter in [*vkshare.adapters("vulkan")[:1], *vkshare.adapters("cpu")]:
        for place in alone(plan.pinned_only):
            plan.progress(f"second handles on {adapter.name}, {place.name}")
            with placed(place), contextlib.ExitStack() as stack:
                one, two = (stack.enter_context(vkshare.open(adapter, validation=False, name="bench")) for _ in "12")
                found += [_opening(one, place.name, plan), _handing_over(one, two, place.name, plan)]
    return found


def _opening(device: vkshare.Device, place: str, plan: Plan) -> Row:
    with device.create_surface(1920, 1080) as surface:

        def alias() -> None:
            device.open_surface(surface).close()

        def descriptor() -> None:
            with surface.export() as exported:
                device.open_surface(exported).close()

        contenders = [Contender(each.__name__, _repeated(each), _TURN) for each in (alias, descriptor)]
        samples = take_turns(contenders, plan.seconds)
    what = f"second 1080p handle on a device, opened and closed, {device.adapter.name}"
    return ratio_row(what, place, samples["alias"], samples["descriptor"], _OPEN_MUST, against="export + import")


def _handing_over(one: vkshare.Device, two: vkshare.Device, place: str, plan: Plan) -> Row:
    """With a clear of 64 x 64 pixels by each owner, so that there is GPU work to be ordered."""
    with contextlib.ExitStack() as stack:
        near, far = (stack.enter_context(one.create_surface(64, 64)) for _ in "12")
        aliased, opened = (
            stack.enter_context(device.open_surface(surface)) for device, surface in ((one, near), (two, far))
        )
        contenders = [
            Contender("one device", _turns(near, aliased), _TURN),
            Contender("two devices", _turns(far, opened), _TURN),
        ]
        samples = take_turns(contenders, plan.seconds)
    what = f"acquire, clear, release by two handles of one device in turn, {one.adapter.name}"
    ours, theirs = samples["one device"], samples["two devices"]
    return ratio_row(what, place, ours, theirs, _HAND_OVER_MUST, against="two devices")


def _repeated(call: Callable[[], None]) -> Timed:
    def timed(n: int) -> float:
        start = now()
        for _ in range(n):
            call()
        return now() - start

    return timed


def _turns(*handles: vkshare.Surface) -> Timed:
    """An even number of turns each time, until all of their work has run."""
    parties = [(each, each.device.record().clear(each, (0, 0, 0, 1))) for each in handles]

    def timed(n: int) -> float:
        start = now()
        for surface, commands in islice(cycle(parties), n):
            surface.acquire(0)
            surface.device.submit(commands)
            surface.release(0)
        for surface, _ in parties:
            surface.device.wait_idle()
        return now() - start

    return timed
