"""How long does a hand-over to another process take, from Python, against C that waits in the same way?

Is that of a large buffer dearer than that of a small one? And what does one cost between two
handles of one device?
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import vkshare
from benchmarks import devices
from benchmarks.measure import Timed, counted, repeated, timed
from benchmarks.plan import Plan
from benchmarks.processes import SPAWN, peer
from benchmarks.shared_block import SharedBlock, keyed_ring
from vkshare import Buffer, Surface

_TURN = 20e-3  # seconds: many time slices of the system's scheduler
_TURN_OF_HANDLES = 10e-3
_WARM_UP = 10  # hand-overs
# Of ours and of C's: how long a cache line travels between two cores depends on where its page
# lies. Each turn takes two, one to warm up, so that an odd number brings all of them to the clock.
_PAGES = 15
_BUFFERS = 5  # of each size, for the same reason
_LARGE, _SMALL = 64 << 20, 4 << 10  # bytes


def run(plan: Plan) -> None:
    """Between processes, and on one device."""
    _between_processes(plan)
    _large_and_small(plan)
    for adapter in devices.best_and_cpu():
        for _ in plan.alone():
            with devices.open_device(adapter) as one, devices.open_device(adapter) as two:
                _opening(plan, one)
                _handing_over(plan, one, two)


# ---- between processes -----------------------------------------------------------------------------------------------


def _between_processes(plan: Plan) -> None:
    """Keys 0 and 1 in turn, on the CPU backend: no GPU work is under way, so that the hand-over is all there is."""
    with (
        contextlib.ExitStack() as stack,
        vkshare.open(backend="cpu", name="bench") as device,
        SharedBlock(_PAGES * mmap.PAGESIZE) as block,
        tempfile.TemporaryDirectory() as folder,
    ):
        surfaces = [stack.enter_context(device.create_surface(64, 64)) for _ in range(_PAGES)]
        shared = (block, SPAWN.Condition(), SPAWN.RawValue("q", 0), f"ipc://{os.path.join(folder, 'zmq')}")
        sides = _sides(surfaces, *shared, is_first=True, plan=plan)
        with peer(peer_sides, [surface.export() for surface in surfaces], *shared, warm_up=_WARM_UP) as other:
            for _ in other.places(plan):
                matches = other.matches(sides, by_ours=True)
                what = "keyed hand-over between processes, one way"
                samples = plan.turns(what, matches, _TURN, times=2)
                one_way = {name: [s / 2 for s in each] for name, each in samples.items()}
                plan.compare(what, one_way, most=1.5)


def _large_and_small(plan: Plan) -> None:
    """A buffer of 64 MiB there and back, in terms of one of 4 KiB: nothing that grows with the bytes is on the way."""
    with contextlib.ExitStack() as stack, vkshare.open(backend="cpu", name="bench") as device:
        buffers = [[stack.enter_context(device.create_buffer(n)) for _ in range(_BUFFERS)] for n in (_LARGE, _SMALL)]
        sides = {name: _ours(each, 0, 1) for name, each in zip(("ours", "c"), buffers, strict=True)}
        descriptors = [[stack.enter_context(buffer.export()) for buffer in each] for each in buffers]
        with peer(peer_buffers, *descriptors, warm_up=_WARM_UP) as other:
            for _ in other.places(plan):
                what = "buffer of 64 MiB there and back between two processes"
                plan.race(what, other.matches(sides, by_ours=True), turn=_TURN, against="4 KiB", most=1.1)


def peer_buffers(large: list[Any], small: list[Any]) -> dict[str, Timed]:
    """For the other process."""
    device = vkshare.open(backend="cpu", name="bench peer")
    return {
        name: _ours([device.open_buffer(descriptor) for descriptor in each], 1, 0)
        for name, each in (("ours", large), ("c", small))
    }


def peer_sides(descriptors: list[Any], *shared: Any) -> dict[str, Timed]:
    """For the other process."""
    device = vkshare.open(backend="cpu", name="bench peer")
    surfaces = [device.open_surface(descriptor) for descriptor in descriptors]
    return _sides(surfaces, *shared, is_first=False, plan=Plan())


def _sides(
    surfaces: list[Surface], block: SharedBlock, condition: Any, turn: Any, address: str, *, is_first: bool, plan: Plan
) -> dict[str, Timed]:
    """Each hands over and takes back n times."""
    take, give = (0, 1) if is_first else (1, 0)
    sides = {"ours": _ours(surfaces, take, give)}
    with plan.noting("the hand-over in C"):
        sides["c"] = keyed_ring(block, 1, take, give)
    sides["mp.Condition"] = _condition(condition, turn, take, give)
    with plan.noting("pyzmq is not installed", ImportError):
        sides["pyzmq"] = _zmq(address, is_first)
    return sides


def _ours(surfaces: Sequence[Surface | Buffer], take: int, give: int) -> Timed:
    turns = cycle(surfaces)  # the other process counts turns too, and starts at the same page

    @timed
    def side(n: int) -> None:
        surface = next(turns)
        for _ in range(n):
            surface.acquire(take)
            surface.release(give)

    return side


def _condition(condition: Any, turn: Any, take: int, give: int) -> Timed:
    @timed
    def side(n: int) -> None:
        for _ in range(n):
            with condition:
                while turn.value != take:
                    condition.wait()
                turn.value = give
                condition.notify()

    return side


def _zmq(address: str, is_first: bool) -> Timed:
    import zmq

    socket: Any = zmq.Context.instance().socket(zmq.PAIR)
    socket.setsockopt(zmq.LINGER, 0)
    if is_first:
        socket.bind(address)
        return counted("socket.send(b''); socket.recv()", socket=socket)
    socket.connect(address)
    return counted("socket.recv(); socket.send(b'')", socket=socket)


# ---- between handles of one device, against a device more ------------------------------------------------------------


def _opening(plan: Plan, device: vkshare.Device) -> None:
    with device.create_surface(1920, 1080) as surface:

        def descriptor() -> None:
            with surface.export() as exported:
                device.open_surface(exported).close()

        ways = {"ours": repeated(lambda: device.open_surface(surface).close()), "c": repeated(descriptor)}
        what = f"second 1080p handle on a device, opened and closed, {device.adapter.name}"
        plan.race(what, ways, most=0.2, turn=_TURN_OF_HANDLES, against="export + import")


def _handing_over(plan: Plan, one: vkshare.Device, two: vkshare.Device) -> None:
    """With a clear of 64 x 64 pixels by each owner, so that there is GPU work to be ordered."""
    with contextlib.ExitStack() as stack:
        near, far = (stack.enter_context(one.create_surface(64, 64)) for _ in "12")
        aliased, opened = (stack.enter_context(to.open_surface(surface)) for to, surface in ((one, near), (two, far)))
        ways = {"ours": _turns(near, aliased), "c": _turns(far, opened)}
        what = f"acquire, clear, release by two handles of one device in turn, {one.adapter.name}"
        plan.race(what, ways, most=1.0, turn=_TURN_OF_HANDLES, against="two devices")


def _turns(*handles: Surface) -> Timed:
    """An even number of turns each time, until all of their work has run."""
    parties = [(each, each.device.record().clear(each, (0, 0, 0, 1))) for each in handles]

    @timed
    def side(n: int) -> None:
        for surface, commands in islice(cycle(parties), n):
            surface.acquire(0)
            surface.device.submit(commands)
            surface.release(0)
        for surface, _ in parties:
            surface.device.wait_idle()

    return side
