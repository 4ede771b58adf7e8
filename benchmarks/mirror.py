"""What does a mirror's turn cost, against a memcpy of the same bytes?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from time import perf_counter
from typing import Any

import numpy as np

import vkshare
from benchmarks.devices import best_and_cpu, open_device
from benchmarks.measure import Timed, repeated
from benchmarks.plan import Plan
from vkshare.core.mirror import Mirror
from vkshare.errors import UnsupportedError
from vkshare.interop.cuda import driver as cuda

_WIDTH, _HEIGHT = 1920, 1080
_WHOLE, _PART = (0, 0, _WIDTH, _HEIGHT), (0, 0, _WIDTH // 8, _HEIGHT // 8)


def run(plan: Plan) -> None:
    """1080p, from and to the adapter that vkshare.open() chooses and the CPU backend, each way that copies."""
    adapters = best_and_cpu()
    if len(adapters) < 2:
        plan.note("mirror: only one adapter is here")
    for of in adapters:
        for on in adapters:
            if of.uuid == on.uuid:
                continue
            with plan.noting("mirror", UnsupportedError), open_device(of) as home, open_device(on) as mirrored:
                _pair(plan, home, mirrored)
    gpus = [each for each in vkshare.adapters("vulkan") if each.kind == "gpu"][:2]
    if len(gpus) == 2:
        with plan.noting("mirror", UnsupportedError), open_device(gpus[0]) as home, open_device(gpus[1]) as mirrored:
            _two_gpus(plan, home, mirrored)


def _two_gpus(plan: Plan, home: vkshare.Device, mirrored: vkshare.Device) -> None:
    """4K, against the driver's copy of as many bytes between memory of its own."""
    width, height = 3840, 2160
    whole, part = (0, 0, width, height), (0, 0, width // 8, height // 8)
    with (
        home.create_surface(width, height) as surface,
        mirrored.mirror(surface) as mirror,
        closing(_PeerCopy(home, mirrored, 4 * width * height)) as peer,
    ):
        copy = repeated(peer.run)
        for _ in plan.alone():
            more: dict[str, Any] = {"against": "the driver's copy of the whole between memory of CUDA's"}
            pull, push = _turns(surface, mirror, whole, None), _turns(mirror, surface, whole, None)
            plan.race("acquire behind a change, 4K between two GPUs", {"ours": pull, "c": copy}, **more)
            plan.race("release of a change, 4K between two GPUs", {"ours": push, "c": copy}, **more)
            damaged = _turns(surface, mirror, part, [part])
            plan.race("acquire behind a change of 1/64, 4K between two GPUs", {"ours": damaged, "c": copy}, **more)


class _PeerCopy:
    """cuMemcpyPeerAsync() between memory that CUDA has allocated on both GPUs."""

    def __init__(self, home: vkshare.Device, mirrored: vkshare.Device, nbytes: int) -> None:
        self._ends = []
        for gpu in (cuda.gpu_of(mirrored), cuda.gpu_of(home)):
            with gpu.current():
                self._ends += [int(cuda.call("cuMemAlloc", nbytes)), cuda.bindings().CUcontext(gpu.context)]
        self._gpu = gpu
        self._nbytes = nbytes

    def run(self) -> None:
        with self._gpu.current():
            cuda.call("cuMemcpyPeerAsync", *self._ends, self._nbytes, 0)
            cuda.call("cuStreamSynchronize", 0)

    def close(self) -> None:
        for memory in self._ends[::2]:
            cuda.call("cuMemFree", memory)


def _pair(plan: Plan, home: vkshare.Device, mirrored: vkshare.Device) -> None:
    name = f"{home.adapter.name.split(' (')[0]} on {mirrored.adapter.name.split(' (')[0]}"
    with home.create_surface(_WIDTH, _HEIGHT) as surface, mirrored.mirror(surface) as mirror:
        if not isinstance(mirror, Mirror):
            plan.note(f"mirror: {name} opens the memory itself, and copies nothing")
            return
        source, target = np.zeros(surface.shape, np.uint8), np.zeros(surface.shape, np.uint8)
        memcpy = repeated(lambda: np.copyto(target, source))
        bound = 1.2 if mirror.statistics().path == "memory" else None
        for _ in plan.alone():
            more: dict[str, Any] = {"against": "memcpy of the whole"}
            pull, push = _turns(surface, mirror, _WHOLE, None), _turns(mirror, surface, _WHOLE, None)
            plan.race(f"acquire behind a change, {name}", {"ours": pull, "c": memcpy}, most=bound, **more)
            plan.race(f"release of a change, {name}", {"ours": push, "c": memcpy}, most=bound, **more)
            part = _turns(surface, mirror, _PART, [_PART])
            plan.race(f"acquire behind a change of 1/64, {name}", {"ours": part, "c": memcpy}, **more)


def _turns(writer: Any, reader: Any, rect: tuple[int, ...], damage: Any) -> Timed:
    """The seconds until the reader's device has what the writer has changed; the change itself is not counted."""

    def turns(n: int) -> float:
        return sum(_turn(writer, reader, rect, damage) for _ in range(n))

    return turns


def _turn(writer: Any, reader: Any, rect: tuple[int, ...], damage: Any) -> float:
    mirror_writes = isinstance(writer, Mirror)
    writer.acquire(0)
    _wait(writer, lambda: writer.device.submit(writer.device.record().fill_rect(writer, rect, (0, 1, 0, 1))))
    if damage is not None:
        writer._set_damage(writer._box_around(damage))
    if mirror_writes:
        took = _wait(writer, lambda: writer.release(0))
        reader.acquire(0)
        reader.release(0)
        return took
    writer.release(0)
    took = _wait(reader, lambda: reader.acquire(0))
    reader.release(0)
    return took


def _wait(of: Any, call: Callable[[], object]) -> float:
    """Seconds that the call takes, with the work that it submits."""
    start = perf_counter()
    call()
    of.device.wait_idle()
    return perf_counter() - start
