"""What does a composite of many windows cost, against loops in C, and how many clients can draw at 60 Hz?"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import vkshare
from benchmarks import compiler, compositor_load
from benchmarks.compositor_load import RATE, Load
from benchmarks.compositor_scene import (
    BACKGROUND,
    BASELINE,
    HEIGHT,
    NATIVE,
    PLACES,
    WIDTH,
    WINDOW,
    InC,
    Pixels,
    pictures,
    seen_pixels,
)
from benchmarks.measure import Spread, Timed, repeated, take_turns
from benchmarks.placement import Placement, alone
from benchmarks.plan import Plan
from benchmarks.report import COUNT, RATIO, TIME, Must, Row, own_row, row, spreads
from vkshare.compositor.scene import Placement as Window
from vkshare.compositor.scene import Scene, Tween
from vkshare.util.closing import Scoped

_TURN = 30e-3  # seconds
_MUST = Must(1.2)
_FEWER = (4, 2)  # clients, tried one after the other while frames are lost
_BLOCK = 16 << 20  # bytes; eight of them are in no cache
_BYTES = 4  # of a pixel


def run(plan: Plan) -> list[Row]:
    """One composite of eight 720p windows into 1080p; then eight clients at 60 Hz for a minute."""
    rows: list[Row] = []
    for opaque in (False, True):
        windows = pictures(opaque=opaque)
        for place in alone(plan):
            plan.progress(f"composites{' of opaque windows' * opaque}, {place.name}")
            rows.append(_composites(plan, place, windows, opaque=opaque))
    return [*rows, *_clients(plan, 1.0 if plan.quick else 60.0)]


# ---- one composite ---------------------------------------------------------------------------------------------------


def _composites(plan: Plan, place: Placement, windows: list[Pixels], *, opaque: bool) -> Row:
    what = f"composite of eight 720p windows into 1080p{', is_opaque' * opaque}"
    with vkshare.open(backend="cpu", name="bench") as device, Composites(device, windows, opaque=opaque) as ours:
        ways: dict[str, Timed] = {"ours": ours.timed, "one list again": ours.timed_again}
        try:
            ways |= {
                "c": InC(windows, flags=BASELINE).timed,
                "C in bands": InC(windows, flags=BASELINE, in_bands=True).timed,
                "C for this processor": InC(windows, flags=NATIVE).timed,
                "C for it in bands": InC(windows, flags=NATIVE, in_bands=True).timed,
            }
        except compiler.NoCompiler as error:
            plan.note(f"composites in C: {error}")
        samples = take_turns(ways, plan.seconds, _TURN)
    return row(what, place.name, samples, None if opaque else _MUST)


class Composites(Scoped):
    """Measures a Compositor's tick at which all clients have committed a frame."""

    def __init__(self, device: vkshare.Device, windows: list[Pixels], *, opaque: bool = False) -> None:
        self._device = device
        self._stack = contextlib.ExitStack()
        self._scene = Scene()
        self._pictures: dict[Window, vkshare.Surface] = {}
        for pixels, place in zip(windows, PLACES, strict=True):
            window = _window(*place, opaque=opaque)
            self._scene.add(window)
            self._pictures[window] = picture = self._stack.enter_context(device.create_surface(*WINDOW))
            picture.acquire()
            picture.write(pixels)
        self._swapchain = self._stack.enter_context(device.create_swapchain(vkshare.Headless(WIDTH, HEIGHT)))
        self._again = self._stack.enter_context(device.create_surface(WIDTH, HEIGHT))
        self._again.acquire()
        self._list = self._record(self._again)

    def close(self) -> None:
        """Idempotent."""
        self._stack.close()

    def composite(self) -> None:
        """Acquires, records, submits, presents, waits."""
        frame = self._swapchain.acquire()
        submission = self._device.submit(self._record(frame.view))
        self._swapchain.present(frame)
        submission.wait()

    def _record(self, target: Any) -> vkshare.CommandList:
        drawn, is_covered = self._scene.draw_list(time.monotonic_ns(), WIDTH, HEIGHT)
        commands = self._device.record()
        if not is_covered:
            commands.clear(target, BACKGROUND)
        for window, x, y, opacity in drawn:
            commands.composite(self._pictures[window], target, (x, y), opacity)
        return commands

    @property
    def pictures(self) -> list[vkshare.Surface]:
        """The windows', bottom to top."""
        return list(self._pictures.values())

    def capture(self) -> Any:
        """(1080, 1920, 4): the last one."""
        return self._swapchain.capture()

    def timed(self, n: int) -> float:
        """Seconds of n composites."""
        return repeated(self.composite)(n)

    def timed_again(self, n: int) -> float:
        """As many runs of one list, recorded once, into one surface."""
        return repeated(lambda: self._device.submit(self._list).wait())(n)


def _window(x: int, y: int, opacity: float, *, opaque: bool) -> Window:
    return Window(*WINDOW, opaque, has_picture=True, x=Tween(x, x), y=Tween(y, y), opacity=Tween(opacity, opacity))


# ---- clients ---------------------------------------------------------------------------------------------------------


def _clients(plan: Plan, seconds: float) -> Iterator[Row]:
    """Eight; where frames are lost, fewer, too. Quickly: two alone."""
    limit = _memory(plan)
    counts = _FEWER[-1:] if plan.quick else (len(PLACES), *_FEWER)
    for clients in counts:
        plan.progress(f"{clients} clients at {RATE} Hz, {seconds:g} s")
        load = compositor_load.run(clients, seconds)
        yield _lost(load, is_wanted=clients == counts[0])
        if clients == counts[0]:
            yield from _used(load, limit)
        if not load.not_shown:
            return


def _lost(load: Load, *, is_wanted: bool) -> Row:
    what = f"frames of {load.clients} 720p clients not shown, of {load.due:,} due in {load.seconds:.0f} s"
    frames = {"shown": load.shown, "late": load.lost, "superseded": load.superseded, "not drawn": load.undrawn}
    others = {**frames, "composites": load.composites, "ticks missed": load.missed, "skipped": load.skipped}
    return own_row(what, load.not_shown, COUNT, Must(0.0) if is_wanted else None, others=_exactly(others))


def _exactly(numbers: Mapping[str, float]) -> dict[str, Spread]:
    return spreads({name: [float(number)] for name, number in numbers.items()})


def _used(load: Load, limit: dict[str, list[float]]) -> Iterator[Row]:
    """Return the machine's limits: memory beyond the caches, and processors."""
    drawn = load.drawn * WINDOW[0] * WINDOW[1]
    composited = load.composites * (seen_pixels(load.clients) + WIDTH * HEIGHT)
    moved = (drawn + composited) * _BYTES / load.seconds
    found = spreads(limit)
    copied = found.pop("copied", None)
    figure = Spread.of([moved / each for each in limit["copied"]]) if copied else None
    what = "bytes a second that these write and read"
    more: dict[str, Any] = {"against": "memcpy on all cores", "unit": "bytes", "others": found}
    yield Row(what, "unpinned", Spread.of([moved]), copied, RATIO, figure, None, **more)
    used = load.compositor_cpu + load.clients_cpu
    others = {
        "of everything else, a second": max(0.0, load.machine_cpu - used) / load.seconds,
        "a composite": load.compositor_cpu / max(1, load.composites),
        "a client's frame": load.clients_cpu / max(1, load.drawn),
    }
    yield own_row("CPU time of all of them, a second", used / load.seconds, TIME, others=_exactly(others))


def _memory(plan: Plan) -> dict[str, list[float]]:
    """Bytes a second that C moves with a thread on each core, over more memory than a cache holds: read and written."""
    try:
        library = compiler.library("memory.c")
    except compiler.NoCompiler as error:
        plan.note(f"memory's limit: {error}")
        return {}
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    found = {}
    for name, function, passes in (("memset", "time_fills", 1), ("copied", "time_copies", 2)):
        loop = compiler.function(library, function, pointer, ctypes.c_uint32, size, ctypes.c_long)
        found[name] = [_on_all_cores(loop) * passes for _ in range(2 if plan.quick else 10)]
    return found


def _on_all_cores(loop: Callable[..., float]) -> float:
    """Bytes a second of all threads together, each with eight blocks of its own."""
    cores = len(os.sched_getaffinity(0))

    def rate(_: int) -> float:
        memory = np.ones((8, _BLOCK), np.uint8)
        blocks = (ctypes.c_void_p * 8)(*(block.ctypes.data for block in memory))
        everywhere.wait()
        return 16 * _BLOCK / loop(blocks, 8, _BLOCK, 16)

    everywhere = threading.Barrier(cores)
    with ThreadPoolExecutor(cores) as threads:
        return sum(threads.map(rate, range(cores)))
