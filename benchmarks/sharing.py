"""What does a second handle of a surface cost on the same device, and a hand-over to it, against a device more?"""

from __future__ import annotations

import contextlib
from itertools import cycle, islice

import vkshare
from benchmarks import devices
from benchmarks.measure import Timed, repeated, take_turns, timed
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import Must, Row, row

_TURN = 10e-3  # seconds
_OPEN_MUST = Must(0.2)
_HAND_OVER_MUST = Must(1.0)


def rows(plan: Plan) -> list[Row]:
    """On the best Vulkan adapter, if there is one, and on the CPU backend."""
    found = []
    for adapter in devices.best_and_cpu():
        for place in alone(plan):
            plan.progress(f"second handles on {adapter.name}, {place.name}")
            with contextlib.ExitStack() as stack:
                one, two = (stack.enter_context(vkshare.open(adapter, validation=False, name="bench")) for _ in "12")
                found += [_opening(one, place.name, plan), _handing_over(one, two, place.name, plan)]
    return found


def _opening(device: vkshare.Device, place: str, plan: Plan) -> Row:
    with device.create_surface(1920, 1080) as surface:

        def descriptor() -> None:
            with surface.export() as exported:
                device.open_surface(exported).close()

        ways = {"ours": repeated(lambda: device.open_surface(surface).close()), "c": repeated(descriptor)}
        samples = take_turns(ways, plan.seconds, _TURN)
    what = f"second 1080p handle on a device, opened and closed, {device.adapter.name}"
    return row(what, place, samples, _OPEN_MUST, against="export + import")


def _handing_over(one: vkshare.Device, two: vkshare.Device, place: str, plan: Plan) -> Row:
    """With a clear of 64 x 64 pixels by each owner, so that there is GPU work to be ordered."""
    with contextlib.ExitStack() as stack:
        near, far = (stack.enter_context(one.create_surface(64, 64)) for _ in "12")
        aliased, opened = (stack.enter_context(to.open_surface(surface)) for to, surface in ((one, near), (two, far)))
        samples = take_turns({"ours": _turns(near, aliased), "c": _turns(far, opened)}, plan.seconds, _TURN)
    what = f"acquire, clear, release by two handles of one device in turn, {one.adapter.name}"
    return row(what, place, samples, _HAND_OVER_MUST, against="two devices")


def _turns(*handles: vkshare.Surface) -> Timed:
    """An even number of turns each time, until all of their work has run."""
    parties = [(each, each.device.record().clear(each, (0, 0, 0, 1))) for each in handles]

    def side(n: int) -> None:
        for surface, commands in islice(cycle(parties), n):
            surface.acquire(0)
            surface.device.submit(commands)
            surface.release(0)
        for surface, _ in parties:
            surface.device.wait_idle()

    return timed(side)
