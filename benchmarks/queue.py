"""What does a surface's way through a queue cost, and how many a second go from one process to another?"""

from __future__ import annotations

import contextlib
from typing import Any

import vkshare
from benchmarks import devices
from benchmarks.measure import Timed, counted
from benchmarks.plan import Plan
from benchmarks.processes import peer
from vkshare.core.queue import SurfaceQueue
from vkshare.core.queue_ends import Consumer, Producer

_COUNT = 3  # surfaces
_SIZES = {"64x64": (64, 64), "4K": (3840, 2160)}
_TURN = 20e-3  # seconds


def run(plan: Plan) -> None:
    """In one process on the CPU backend and the best Vulkan adapter; between two processes on the CPU backend."""
    for device in devices.opened(devices.best_and_cpu()):
        _pairs(plan, device)
    with vkshare.open(backend="cpu", name="bench") as device:
        _between_processes(plan, device)


def _pairs(plan: Plan, device: vkshare.Device) -> None:
    """Enqueue and dequeue a surface, without another process."""
    for threads in ("", ", single-threaded"):
        with SurfaceQueue(device, 64, 64, single_threaded=bool(threads)) as root:
            producer, consumer = root.open_producer(device), root.open_consumer(device)
            there_and_back = "surface, _ = consumer.dequeue(0); producer.enqueue(surface)"
            both = counted(there_and_back, producer=producer, consumer=consumer)
            for _ in plan.alone():
                plan.calls(f"enqueue + dequeue{threads}, {device.adapter.name}", {"ours": both}, most=1e-6)


def _between_processes(plan: Plan, device: vkshare.Device) -> None:
    """This process produces, another consumes and gives back; no pixel is touched."""
    with contextlib.ExitStack() as stack:
        sides, descriptors = {}, {}
        for name, size in _SIZES.items():
            root = stack.enter_context(SurfaceQueue(device, *size, count=_COUNT))
            clone = stack.enter_context(root.clone())
            sides[name] = _passes(root.open_consumer(device), clone.open_producer(device))
            descriptors[name] = [queue.export() for queue in (root, clone)]
        with peer(consumers, descriptors, warm_up=2 * _COUNT) as other:
            for each in descriptors.values():
                for descriptor in each:
                    descriptor.close()
            for _ in other.places(plan):
                samples = plan.turns("surfaces between two processes", other.matches(sides), _TURN)
                for name in _SIZES:
                    what = f"{name} surfaces, no pixel work, CPU backend"
                    plan.rate(what, {"ours": samples[name]}, least=200_000)
                plan.apart("4K surfaces against 64x64", samples["4K"], samples["64x64"])


def consumers(descriptors: dict[str, list[Any]]) -> dict[str, Timed]:
    """For the other process."""
    device = vkshare.open(backend="cpu", name="bench peer")
    sides: dict[str, Timed] = {}
    for name, (root, clone) in descriptors.items():
        back = SurfaceQueue.open(device, root).open_producer(device)
        seen = SurfaceQueue.open(device, clone).open_consumer(device)
        sides[name] = _passes(seen, back)
    return sides


def _passes(source: Consumer, target: Producer) -> Timed:

    there = "surface, _ = source.dequeue(); target.enqueue(surface, b'', 'gpu')"
    return counted(there, "0", source=source, target=target)
