"""What does a surface's way through a queue cost, and how many a second go from one process to another?"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from typing import Any

import vkshare
from benchmarks import loops
from benchmarks.measure import Contender, Samples, Spread, Timed, differences, take_turns, timed, warmed_up
from benchmarks.peer import Peer, Side
from benchmarks.placement import Placement, alone, pairs, placed
from benchmarks.plan import Plan
from benchmarks.report import RATE, RATIO, TIME, Must, Row, own_row
from vkshare.core.queue import SurfaceQueue
from vkshare.core.queue_ends import Consumer, Producer

_COUNT = 3  # surfaces
_SIZES = {"64x64": (64, 64), "4K": (3840, 2160)}
_PAIR = Must(1e-6)
_RATE = Must(200_000, at_least=True)
_APART = Must(1.1)
_TURN = 20e-3  # seconds
_WARM_UP = 2 * _COUNT  # frames


def run(plan: Plan) -> list[Row]:
    """In one process on the CPU backend and the best Vulkan adapter; between two processes on the CPU backend."""
    rows: list[Row] = []
    for adapter in [*vkshare.adapters("vulkan")[:1], *vkshare.adapters("cpu")]:
        with vkshare.open(adapter, validation=False, name="bench") as device:
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
            for place in alone(plan.pinned_only):
                with placed(place):
                    plan.progress(f"enqueue + dequeue{threads} on {device.adapter.name}, {place.name}")
                    contenders = [
                        Contender("loop", loops.empty),
                        Contender("ours", _there_and_back(producer, consumer)),
                    ]
                    samples = take_turns(contenders, plan.seconds)
                ours = differences(samples["ours"], samples["loop"])
                what = f"enqueue + dequeue{threads}, {device.adapter.name}"
                yield own_row(what, ours, TIME, _PAIR, place.name)


def _there_and_back(producer: Producer, consumer: Consumer) -> Timed:
    @timed
    def loop(n: int) -> None:
        for value in range(loops.FIRST, loops.FIRST + n):  # noqa: B007
            surface, _ = consumer.dequeue(0)
            producer.enqueue(surface)

    return loop


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
            for place in pairs(plan.pinned_only):
                peer.pin(place.peer)
                with placed(place):
                    plan.progress(f"surfaces between two processes, {place.name}")
                    yield from _rates(place, peer, ends, plan)


def peer_sides(descriptors: dict[str, list[Any]]) -> dict[str, Side]:
    """For the other process, the consumer."""
    device = vkshare.open(backend="cpu", name="bench peer")
    sides: dict[str, Side] = {}
    for name, (root, clone) in descriptors.items():
        back = SurfaceQueue.open(device, root).open_producer(device)
        seen = SurfaceQueue.open(device, clone).open_consumer(device)
        sides[name] = _passes(seen, back)
    return sides


def _passes(source: Consumer, target: Producer) -> Side:
    """With a few frames before, so that both are there when the clock starts."""

    def some(n: int) -> None:
        for _ in range(n):
            surface, _ = source.dequeue()
            target.enqueue(surface, b"", "gpu")

    return warmed_up(some, _WARM_UP)


def _rates(place: Placement, peer: Peer, ends: dict[str, tuple[Consumer, Producer]], plan: Plan) -> Iterator[Row]:
    sides = {name: _passes(*both) for name, both in ends.items()}
    contenders = [
        Contender(name, lambda n, name=name, side=side: peer.play(name, n, side)[1], _TURN)  # type: ignore[misc]
        for name, side in sides.items()
    ]
    samples = take_turns(contenders, plan.seconds)
    for name in _SIZES:
        rates = Spread.of([1 / sample for sample in samples[name]])
        what = f"{name} surfaces, no pixel work, CPU backend"
        yield own_row(what, rates, RATE, _RATE, place.name, is_rate=True)
    yield _apart(place, samples)


def _apart(place: Placement, samples: dict[str, Samples]) -> Row:
    """The larger of the two rates over the smaller: all surfaces over all the time that they took."""
    quotient = statistics.fmean(samples["64x64"]) / statistics.fmean(samples["4K"])
    apart = max(quotient, 1 / quotient)
    figure = Spread(apart, apart, apart)
    ours = Spread.of([1 / sample for sample in samples["4K"]])
    return Row(
        "4K surfaces against 64x64", place.name, ours, None, RATIO, figure, _APART, is_rate=True, against="apart"
    )
