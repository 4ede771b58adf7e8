"""What does a surface's way through a queue cost, and how many a second go from one process to another?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import vkshare
from benchmarks import devices, loops
from benchmarks.measure import Spread, Timed, differences, rates, take_turns, warmed_up
from benchmarks.peer import Peer
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import RATE, TIME, Must, Row, apart, own_row
from vkshare.core.queue import SurfaceQueue
from vkshare.core.queue_ends import Consumer, Producer

_COUNT = 3  # surfaces
_SIZES = {"64x64": (64, 64), "4K": (3840, 2160)}
_PAIR = Must(1e-6)
_RATE = Must(200_000, at_least=True)
_TURN = 20e-3  # seconds
_WARM_UP = 2 * _COUNT  # frames


def run(plan: Plan) -> list[Row]:
    """In one process on the CPU backend and the best Vulkan adapter; between two processes on the CPU backend."""
    rows: list[Row] = []
    for device in devices.opened(devices.best_and_cpu()):
        rows += _pairs(device, plan)
    with vkshare.open(backend="cpu", name="bench") as device:
        rows += _between_processes(device, plan)
    return rows


# ---- one process -----------------------------------------------------------------------------------------------------


def _pairs(device: vkshare.Device, plan: Plan) -> Iterator[Row]:
    """Enqueue and dequeue a surface, without another process."""
    for threads in ("", ", single-threaded"):
        with SurfaceQueue(device, 64, 64, single_threaded=bool(threads)) as root:
            producer, consumer = root.open_producer(device), root.open_consumer(device)
            there_and_back = "surface, _ = consumer.dequeue(0); producer.enqueue(surface)"
            both = loops.counted(there_and_back, producer=producer, consumer=consumer)
            for place in alone(plan):
                plan.progress(f"enqueue + dequeue{threads} on {device.adapter.name}, {place.name}")
                samples = take_turns({"loop": loops.empty, "ours": both}, plan.seconds)
                ours = differences(samples["ours"], samples["loop"])
                yield own_row(f"enqueue + dequeue{threads}, {device.adapter.name}", ours, TIME, _PAIR, place.name)


# ---- two processes ---------------------------------------------------------------------------------------------------


def _between_processes(device: vkshare.Device, plan: Plan) -> Iterator[Row]:
    """This process produces, another consumes and gives back; no pixel is touched."""
    with contextlib.ExitStack() as stack:
        queues = {}
        for name, size in _SIZES.items():
            root = stack.enter_context(SurfaceQueue(device, *size, count=_COUNT))
            queues[name] = root, stack.enter_context(root.clone())
        ends = {
            name: (root.open_consumer(device), clone.open_producer(device)) for name, (root, clone) in queues.items()
        }
        descriptors = {name: [queue.export() for queue in both] for name, both in queues.items()}
        with Peer(__name__, "peer_sides", descriptors) as peer:
            for each in descriptors.values():
                for descriptor in each:
                    descriptor.close()
            sides = {name: _passes(*both) for name, both in ends.items()}
            for place in peer.places(plan):
                plan.progress(f"surfaces between two processes, {place.name}")
                samples = take_turns(peer.matches(sides), plan.seconds, _TURN)
                for name in _SIZES:
                    ours = Spread.of(rates(samples[name]))
                    what = f"{name} surfaces, no pixel work, CPU backend"
                    yield own_row(what, ours, RATE, _RATE, place.name, is_rate=True)
                yield apart("4K surfaces against 64x64", place.name, samples["4K"], samples["64x64"])


def peer_sides(descriptors: dict[str, list[Any]]) -> dict[str, Timed]:
    """For the other process, the consumer."""
    device = vkshare.open(backend="cpu", name="bench peer")
    sides: dict[str, Timed] = {}
    for name, (root, clone) in descriptors.items():
        back = SurfaceQueue.open(device, root).open_producer(device)
        seen = SurfaceQueue.open(device, clone).open_consumer(device)
        sides[name] = _passes(seen, back)
    return sides


def _passes(source: Consumer, target: Producer) -> Timed:
    """With a few frames before, so that both are there when the clock starts."""

    def some(n: int) -> None:
        for _ in range(n):
            surface, _ = source.dequeue()
            target.enqueue(surface, b"", "gpu")

    return warmed_up(some, _WARM_UP)
