"""How many frames a second go from one process to another, and how near does that come to filling memory?"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import mmap
import os
from collections.abc import Callable
from itertools import cycle, islice
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

import vkshare
from benchmarks import compiler
from benchmarks.compiler import ffi
from benchmarks.measure import Timed, counted, rates, spreads
from benchmarks.plan import Plan, pairs
from benchmarks.processes import SPAWN, peer
from benchmarks.shared_block import SharedBlock, keyed_ring
from vkshare import Surface
from vkshare.util.closing import Scoped

_RING = 3  # surfaces, each with its keyed mutex: the producer's key is 0, the consumer's 1
# How long a cache line travels between two cores depends on where its page lies, so that one ring
# says little. Each turn takes two, one to warm up: an odd number brings all of them to the clock.
_RINGS = 5
_SIZES = {"1080p": (1920, 1080), "4K": (3840, 2160)}
_BYTES = 4 * 1920 * 1080  # of the smaller frame
_TURN = 20e-3  # seconds
_LONG_TURN = 100e-3  # for what moves only a few frames in the other

Side = Callable[[int], object]  # passes n frames on, or takes them


def run(plan: Plan) -> None:
    """This process produces, another consumes. On the CPU backend, where surfaces are mapped."""
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(vkshare.open(backend="cpu", name="bench"))
        rings = {
            name: [[stack.enter_context(device.create_surface(*size)) for _ in range(_RING)] for _ in range(_RINGS)]
            for name, size in _SIZES.items()
        }
        block = stack.enter_context(SharedBlock(_RINGS * mmap.PAGESIZE))
        pixels = stack.enter_context(SharedBlock(_RING * _BYTES))
        copies = stack.enter_context(Copies(*_SIZES["1080p"], plan))
        descriptors = {name: [[s.export() for s in ring] for ring in each] for name, each in rings.items()}
        producers = {name: _pass_on(each, 0, 1) for name, each in rings.items()} | copies.producers()
        producers["fill"] = _fill(rings["1080p"][0])
        limit = None
        with plan.noting("frames in C"):
            blocks = pixels.parts(_BYTES)
            producers["c"] = keyed_ring(block, _RING, 0, 1)
            producers["C, handed over"] = keyed_ring(block, _RING, 0, 1, blocks, _BYTES)
            limit = _limit(blocks)
        # The first frames find empty buffers and sleeping threads: some go before.
        with peer(consumers, descriptors, block, copies, warm_up=2 * _RING) as other:
            matches = other.matches(producers)
            for place in other.places(plan):
                is_best = place == pairs(pinned_only=True)[-1]
                _no_pixel_work(plan, matches, ("mp.Queue", "shared_memory", "iceoryx2") if is_best else ())
                _filled(plan, matches, limit)


def consumers(descriptors: dict[str, list[list[Any]]], block: SharedBlock, copies: Copies) -> dict[str, Side]:
    """For the other process."""
    device = vkshare.open(backend="cpu", name="bench peer")
    rings = {name: [[device.open_surface(d) for d in ring] for ring in each] for name, each in descriptors.items()}
    sides = {name: _pass_on(each, 1, 0) for name, each in rings.items()} | copies.consumers()
    sides["fill"] = _pass_on(rings["1080p"][:1], 1, 0)
    with contextlib.suppress(compiler.NoCompiler):
        sides |= {name: keyed_ring(block, _RING, 1, 0) for name in ("c", "C, handed over")}
    return sides


# ---- rows: by the consumer's clock, a frame counts when it has arrived -----------------------------------------------


def _no_pixel_work(plan: Plan, matches: dict[str, Timed], ways_of_today: tuple[str, ...]) -> None:
    """The ways of today are slow and take part in their best placement: that is enough."""
    quick = {name: matches[name] for name in (*_SIZES, "c") if name in matches}
    slow = {name: matches[name] for name in ways_of_today if name in matches}
    samples = plan.turns("frames between two processes", quick, _TURN)
    today = plan.turns("copies between two processes", slow, _LONG_TURN) if slow else {}
    for name in _SIZES:
        sides = {"ours": samples[name]} | ({"c": samples["c"]} if "c" in samples else {})
        others = spreads({name: rates(each) for name, each in today.items()}) if name == "1080p" else {}
        plan.rate(f"{name} frames, no pixel work", sides, least=300_000, others=others)
    plan.apart("4K frames against 1080p", samples["4K"], samples["1080p"], "1080p")


def _filled(plan: Plan, matches: dict[str, Timed], limit: Timed | None) -> None:
    """The producer fills each frame, against C that fills as much memory and hands nothing over, and C that does."""
    ways = {"ours": matches["fill"]}
    if limit:
        ways |= {"c": limit, "C, handed over": matches["C, handed over"]}
    plan.race("1080p frames, each filled", ways, least=0.9, turn=_LONG_TURN, is_rate=True, against="memset")


# ---- the sides ------------------------------------------------------------------------------------------------------


def _pass_on(rings: list[list[Surface]], take: int, give: int) -> Side:
    turns = cycle(rings)  # the other process counts turns too, and starts at the same ring

    def side(n: int) -> None:
        for surface in islice(cycle(next(turns)), n):
            surface.acquire(take)
            surface.release(give)

    return side


def _fill(ring: list[Surface]) -> Side:
    def side(n: int) -> None:
        for i, surface in enumerate(islice(cycle(ring), n)):
            with surface.access(acquire=0, release=1) as view:
                view.array.fill(i & 0xFF)

    return side


def _limit(blocks: list[Any]) -> Timed:
    fills, addresses = compiler.library("memory.c").time_fills, ffi.new("void *[]", blocks)

    def side(n: int) -> float:
        fills(addresses, _RING, _BYTES, _RING)  # maps the pages
        return float(fills(addresses, _RING, _BYTES, n))

    return side


class Copies(Scoped):
    """How frames go between processes today: pickled through a queue, copied through shared memory, loaned by iceoryx2.

    The producer makes the objects that both processes share; the consumer gets them by pickle at its start.
    """

    def __init__(self, width: int, height: int, plan: Plan) -> None:
        self._shape = (height, width, 4)
        self._queue = SPAWN.Queue(_RING)
        self._free, self._filled = SPAWN.Semaphore(_RING), SPAWN.Semaphore(0)
        self._memory = SharedMemory(create=True, size=_RING * _BYTES)
        self._service = f"vkshare/benchmarks/{os.getpid()}"
        if importlib.util.find_spec("iceoryx2") is None:
            self._service = ""
            plan.note("iceoryx2 is not installed")

    def producers(self) -> dict[str, Side]:
        """By name; each passes n frames on."""
        sides: dict[str, Side] = {
            "mp.Queue": self._loop("queue.put(frame)"),
            "shared_memory": self._loop("free.acquire(); slot(value)[...] = frame; filled.release()"),
        }
        return sides | ({"iceoryx2": _publish(_service(self._service))} if self._service else {})

    def consumers(self) -> dict[str, Side]:
        """By name; each takes n frames."""
        sides: dict[str, Side] = {
            "mp.Queue": self._loop("queue.get()"),
            "shared_memory": self._loop("filled.acquire(); frame[...] = slot(value); free.release()"),
        }
        return sides | ({"iceoryx2": _subscribe(_service(self._service))} if self._service else {})

    def _loop(self, statement: str) -> Timed:
        frame = np.zeros(self._shape, np.uint8)
        shared = {"queue": self._queue, "free": self._free, "filled": self._filled}
        return counted(statement, "0", frame=frame, slot=self._slot, **shared)

    def _slot(self, i: int) -> np.ndarray[Any, Any]:
        return np.ndarray(self._shape, np.uint8, self._memory.buf, (i % _RING) * _BYTES)

    def close(self) -> None:
        """For the producer."""
        self._queue.close()
        self._memory.close()
        self._memory.unlink()


# ---- iceoryx2: frames are loaned, not copied, and no pixel is touched -----------------------------------------------


def _service(name: str) -> Any:
    import iceoryx2 as iox2

    iox2.set_log_level(iox2.LogLevel.Error)
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    builder = node.service_builder(iox2.ServiceName.new(name)).publish_subscribe(iox2.Slice[ctypes.c_uint8])
    return node, builder.enable_safe_overflow(False).subscriber_max_buffer_size(_RING).open_or_create()


def _publish(service: Any) -> Side:
    import iceoryx2 as iox2

    builder = service[1].publisher_builder().initial_max_slice_len(_BYTES)
    publisher = builder.backpressure_strategy(iox2.BackpressureStrategy.RetryUntilDelivered).create()
    statement = "publisher.loan_slice_uninit(size).assume_init().send()"
    return counted(statement, publisher=publisher, size=_BYTES, kept=service)


def _subscribe(service: Any) -> Side:
    subscriber = service[1].subscriber_builder().create()

    def side(n: int, _kept: Any = service) -> None:
        while n:
            sample = subscriber.receive()
            if sample is not None:
                sample.delete()
                n -= 1

    return side
