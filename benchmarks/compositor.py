"""What does a composite of many windows cost, against loops in C, and how many clients can draw at 60 Hz?"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import vkshare
from benchmarks import compiler, compositor_load
from benchmarks.compiler import ffi
from benchmarks.compositor_load import HEIGHT, PLACES, RATE, WIDTH, WINDOW, Load
from benchmarks.measure import Spread, Timed, repeated, spreads
from benchmarks.plan import Plan
from vkshare.compositor.scene import Placement as Window
from vkshare.compositor.scene import Scene, Tween
from vkshare.util.closing import Scoped

BACKGROUND = (0.0, 0.0, 0.0, 1.0)
BASELINE = ("-O3",)
NATIVE = ("-O3", "-march=native")
_BAND = 32  # rows; as much of a 1080p target as stays in the second-level cache beside what is read
_TURN = 30e-3  # seconds
_FEWER = (4, 2)  # clients, tried one after the other while frames are lost
_BLOCK = 16 << 20  # bytes; eight of them are in no cache
_BYTES = 4  # of a pixel

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def run(plan: Plan) -> None:
    """One composite of eight 720p windows into 1080p; then eight clients at 60 Hz for a minute."""
    for opaque in (False, True):
        windows = pictures(opaque=opaque)
        for _ in plan.alone():
            _composites(plan, windows, opaque=opaque)
    _clients(plan, 1.0 if plan.quick else 60.0)


# ---- one composite ---------------------------------------------------------------------------------------------------


def _composites(plan: Plan, windows: list[Pixels], *, opaque: bool) -> None:
    what = f"composite of eight 720p windows into 1080p{', is_opaque' * opaque}"
    with vkshare.open(backend="cpu", name="bench") as device, Composites(device, windows, opaque=opaque) as ours:
        ways: dict[str, Timed] = {"ours": repeated(ours.composite), "one list again": repeated(ours.composite_again)}
        with plan.noting("composites in C"):
            ways |= {
                "c": InC(windows, flags=BASELINE).timed,
                "C in bands": InC(windows, flags=BASELINE, in_bands=True).timed,
                "C for this processor": InC(windows, flags=NATIVE).timed,
                "C for it in bands": InC(windows, flags=NATIVE, in_bands=True).timed,
            }
        plan.race(what, ways, most=None if opaque else 1.2, turn=_TURN)


def pictures(*, opaque: bool = False) -> list[Pixels]:
    """A window's (720, 1280, 4) each: random, and premultiplied by an alpha that is random too, or 255."""
    random = np.random.default_rng(1)
    found = []
    for _ in PLACES:
        shape = WINDOW[1], WINDOW[0]
        alpha = random.integers(255 if opaque else 0, 256, (*shape, 1), np.int32)
        colours = random.integers(0, 256, (*shape, 3), np.int32) * alpha // 255
        found.append(np.concatenate([colours, alpha], axis=2).astype(np.uint8))
    return found


class InC:
    """The loops of c/composite.c. NoCompiler."""

    def __init__(self, windows: list[Pixels], *, flags: tuple[str, ...] = BASELINE, in_bands: bool = False) -> None:
        self.picture: Pixels = np.zeros((HEIGHT, WIDTH, 4), np.uint8)  # what it has drawn
        self._kept = [ffi.from_buffer("uint32_t[]", each) for each in (self.picture, *windows)]
        target = ffi.new("target *", (self._kept[0], WIDTH, HEIGHT))
        placed = zip(self._kept[1:], PLACES, strict=True)
        described = [(pixels, *WINDOW, x, y, round(255 * opacity)) for pixels, (x, y, opacity) in placed]
        how = ffi.new("window[]", described), len(described), _BAND if in_bands else HEIGHT
        self._timed = partial(compiler.library("composite.c", flags=flags).time_composites, target, 0xFF000000, *how)

    def timed(self, n: int) -> float:
        """Seconds of n composites."""
        return float(self._timed(n))


class Composites(Scoped):
    """Measures a Compositor's tick at which all clients have committed a frame."""

    def __init__(self, device: vkshare.Device, windows: list[Pixels], *, opaque: bool = False) -> None:
        self._device = device
        self._stack = contextlib.ExitStack()
        self._scene = Scene()
        self.pictures: dict[Window, vkshare.Surface] = {}  # bottom to top
        for pixels, (x, y, opacity) in zip(windows, PLACES, strict=True):
            at = (Tween(each, each) for each in (x, y, opacity))
            window = Window(*WINDOW, opaque, True, *at)
            self._scene.add(window)
            self.pictures[window] = picture = self._stack.enter_context(device.create_surface(*WINDOW))
            picture.acquire()
            picture.write(pixels)
        self.swapchain = self._stack.enter_context(device.create_swapchain(vkshare.Headless(WIDTH, HEIGHT)))
        again = self._stack.enter_context(device.create_surface(WIDTH, HEIGHT))
        again.acquire()
        self._list = self._record(again)

    def close(self) -> None:
        """Idempotent."""
        self._stack.close()

    def composite(self) -> None:
        """Acquires, records, submits, presents, waits."""
        frame = self.swapchain.acquire()
        submission = self._device.submit(self._record(frame.view))
        self.swapchain.present(frame)
        submission.wait()

    def composite_again(self) -> None:
        """Submits one list, recorded once, into one surface."""
        self._device.submit(self._list).wait()

    def _record(self, target: Any) -> vkshare.CommandList:
        drawn, is_covered = self._scene.draw_list(time.monotonic_ns(), WIDTH, HEIGHT)
        commands = self._device.record()
        if not is_covered:
            commands.clear(target, BACKGROUND)
        for window, x, y, opacity in drawn:
            commands.composite(self.pictures[window], target, (x, y), opacity)
        return commands


# ---- clients ---------------------------------------------------------------------------------------------------------


def _clients(plan: Plan, seconds: float) -> None:
    """Eight; where frames are lost, fewer, too. Quickly: two alone."""
    limit = _memory(plan)
    wanted, *fewer = _FEWER[-1:] if plan.quick else (len(PLACES), *_FEWER)
    for clients in (wanted, *fewer):
        plan.progress(f"{clients} clients at {RATE} Hz, {seconds:g} s")
        load = compositor_load.run(clients, seconds)
        _lost(plan, load, is_wanted=clients == wanted)
        if clients == wanted:
            _used(plan, load, limit)
        if not load.not_shown:
            return


def _lost(plan: Plan, load: Load, *, is_wanted: bool) -> None:
    what = f"frames of {load.clients} 720p clients not shown, of {load.due:,} due in {load.seconds:.0f} s"
    names = {"shown": "shown", "late": "lost", "superseded": "superseded", "composites": "composites"}
    names |= {"ticks missed": "missed", "skipped": "skipped"}
    others = {name: load.counts[counter] for name, counter in names.items()} | {"not drawn": load.undrawn}
    plan.count(what, load.not_shown, most=0 if is_wanted else None, others=others)


def _used(plan: Plan, load: Load, limit: dict[str, list[float]]) -> None:
    """Add what these take of the machine: memory beyond the caches, and processors."""
    drawn = load.drawn * WINDOW[0] * WINDOW[1]
    composited = load.counts["composites"] * (seen_pixels(load.clients) + WIDTH * HEIGHT)
    moved = (drawn + composited) * _BYTES / load.seconds
    found = spreads(limit)
    copied = found.pop("copied", None)
    figure = Spread.of([moved / each for each in limit["copied"]]) if copied else None
    what, more = "bytes a second that these write and read", {"against": "memcpy on all cores", "unit": "bytes"}
    plan.ratio(what, figure, moved, copied, others=found, **more)
    used = load.counts["cpu"] + load.clients_cpu
    others = {
        "of everything else, a second": max(0.0, load.machine_cpu - used) / load.seconds,
        "a composite": load.counts["cpu"] / max(1, load.counts["composites"]),
        "a client's frame": load.clients_cpu / max(1, load.drawn),
    }
    plan.own("CPU time of all of them, a second", used / load.seconds, others=others)


def seen_pixels(windows: int) -> int:
    """Return how many pixels of the lowest windows, so many, lie in the target."""
    return sum(
        (min(x + WINDOW[0], WIDTH) - max(x, 0)) * (min(y + WINDOW[1], HEIGHT) - max(y, 0))
        for x, y, _ in PLACES[:windows]
    )


def _memory(plan: Plan) -> dict[str, list[float]]:
    """Bytes a second that C moves with a thread on each core, over more memory than a cache holds: read and written."""
    limit, rounds = {}, range(2 if plan.quick else 10)
    with plan.noting("memory's limit"):
        lib = compiler.library("memory.c")
        limit["memset"] = [_on_all_cores(lib.time_fills) for _ in rounds]
        limit["copied"] = [2 * _on_all_cores(lib.time_copies) for _ in rounds]
    return limit


def _on_all_cores(loop: Callable[..., float]) -> float:
    """Bytes a second of all threads together, each with eight blocks of its own."""
    cores = len(os.sched_getaffinity(0))

    def rate(_: int) -> float:
        memory = np.ones((8, _BLOCK), np.uint8)
        blocks = ffi.new("void *[]", [ffi.from_buffer(block) for block in memory])
        everywhere.wait()
        return 16 * _BLOCK / loop(blocks, 8, _BLOCK, 16)

    everywhere = threading.Barrier(cores)
    with ThreadPoolExecutor(cores) as threads:
        return sum(threads.map(rate, range(cores)))
